// Link: an ordered, reliable stream of bytes to one peer. Three kinds: a ring in shared memory, a
// TCP socket, a simulated one. Nothing here blocks; waiting is done by whoever polls the transport.
#pragma once

#include "base/failure.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tutti {

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  /// Accepts a prefix of the concatenated `parts`, without blocking; returns how many bytes.
  virtual std::size_t write(std::span<const std::span<const std::byte>> parts) = 0;
  /// Fills a prefix of the concatenated `parts`, without blocking; returns how many bytes.
  virtual std::size_t read(std::span<const std::span<std::byte>> parts) = 0;
  /// Set once the peer is gone or the stream broke; bytes that had arrived can still be read.
  virtual std::optional<Failure> failure() = 0;

  /// Before sleeping: asks to be woken (through the owner's bell) when bytes can be read, or, with
  /// `want_write`, when there is room again. False if that is already so: do not sleep.
  virtual bool arm(bool want_write) = 0;
  /// A descriptor that polls readable when bytes can be read; -1 if the bell tells.
  virtual int fd() const = 0;
  /// "shm" or "tcp 10.0.0.2:29501", for messages.
  virtual std::string describe() const = 0;

  /// A cheap hint: false if read() would find nothing and nothing failed.
  virtual bool readable() const { return true; }
  /// Bytes accepted by write() that are lost if this process ends now (unsent in a socket).
  virtual std::size_t undelivered() const { return 0; }
};

}  // namespace tutti
