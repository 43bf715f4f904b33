// TcpLink: a Link over a connected, non-blocking socket. Data that had arrived before the
// connection broke is read first; only then the failure shows.
#pragma once

#include "base/unique_fd.hpp"
#include "transport/link.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tutti {

class TcpLink final : public Link {
 public:
  /// `socket`: connected; made non-blocking and TCP_NODELAY here. `peer`: its address, "host:port".
  TcpLink(UniqueFd socket, std::string peer);
  ~TcpLink() override;

  std::size_t write(std::span<const std::span<const std::byte>> parts) override;
  std::size_t read(std::span<const std::span<std::byte>> parts) override;
  std::optional<Failure> failure() override { return failure_; }
  /// The owner watches fd() itself.
  bool arm(bool) override { return !failure_.has_value(); }
  int fd() const override { return socket_.get(); }
  std::string describe() const override { return "tcp " + peer_; }
  std::size_t undelivered() const override;

 private:
  void fail(const char* what, int error);

  UniqueFd socket_;
  const std::string peer_;
  int write_error_ = 0;  // errno that ended writing; reading goes on until nothing is left
  std::optional<Failure> failure_;
};

}  // namespace tutti
