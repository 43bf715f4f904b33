// ShmLink: a Link through two rings in shared memory, one per direction. A ring has one producer
// and one consumer. What is written lies there in records that begin on a cache line with their
// size, the tag, which is there once the record is complete: a reader that waits looks at the tag
// of the next record, and finds a small message in the very line that told it of it. A bit of the
// tag changes from lap to lap, so that what is left of the lap before is no tag. The producer
// also posts how far it wrote (tail), for readers that sleep, and the consumer how far it read
// (head), both in bytes modulo 2^32. What a peer writes into tags and counters is checked: numbers
// that cannot be are a failure, never an access outside the ring.
#pragma once

#include "transport/link.hpp"
#include "transport/publish.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// The ring as it lies in memory, its bytes right behind it.
struct ShmRing {
  Line tail;                             ///< posted by the producer
  alignas(128) Line head;                ///< posted by the consumer
  alignas(128) std::uint32_t magic = 0;  ///< this and the next: written once, before it is shared
  std::uint32_t capacity = 0;            ///< bytes; a power of two

  static constexpr std::uint32_t kMagic = 0x474e5254;

  /// Memory a ring of `capacity` bytes takes.
  static constexpr std::size_t footprint(std::size_t capacity) {
    return sizeof(ShmRing) + capacity;
  }
  /// Makes a ring at `at`, aligned to 128 bytes; `capacity` a power of two within base/limits.hpp.
  static ShmRing& create(void* at, std::size_t capacity);
  /// The ring that a peer made at `at`, where `available` bytes are mapped; null if there is none.
  static ShmRing* find(void* at, std::size_t available);

  /// Whether these are the last two members of a ring that fits into `available` bytes.
  static bool is_sound(std::uint32_t magic, std::uint32_t capacity, std::size_t available);

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

class ShmLink final : public Link {
 public:
  struct Options {
    ShmRing* in = nullptr;          ///< this rank consumes; outlives the link
    std::uint32_t in_capacity = 0;  ///< of `in`, as it was found; it is not touched before its use
    ShmRing* out = nullptr;         ///< this rank produces; outlives the link
    PublishMode mode = PublishMode::exchange;
    Waker* waker = nullptr;      ///< rings the peer's bell; outlives the link
    std::uint32_t bell_bit = 1;  ///< what the peer's waker is given to ring this rank's bell
    std::string name = "shm";
  };
  explicit ShmLink(const Options& options);

  std::size_t write(std::span<const std::span<const std::byte>> parts) override;
  std::size_t read(std::span<const std::span<std::byte>> parts) override;
  std::optional<Failure> failure() override;
  bool arm(bool want_write) override;
  int fd() const override { return -1; }
  std::string describe() const override { return options_.name; }
  bool readable() const override;

  /// Any thread: the peer is gone. What it had written can still be read.
  void fail(const Failure& failure);

 private:
  std::uint32_t room();
  std::uint32_t available();
  void copy_in(std::uint32_t position, std::span<const std::byte> part);
  void note_tag_line(std::uint32_t position, std::size_t lines);
  void publish(std::uint32_t bytes);
  void copy_out(std::span<std::byte> part);
  bool register_bell(Line& line) const;

  const Options options_;
  const std::uint32_t in_mask_;
  const std::uint32_t out_mask_;
  // Owner of the channel's lock.
  std::vector<bool> tag_lines_;    // of the out ring: began with a tag when last written
  std::uint32_t written_ = 0;      // own tail
  std::uint32_t freed_ = 0;        // last seen head of the peer
  std::uint32_t read_posted_ = 0;  // own head as posted
  std::uint32_t read_ = 0;         // own head: where the oldest record begins that is not all read
  std::uint32_t unread_ = 0;       // bytes left of it, if it is known
  std::uint32_t cursor_ = 0;       // where they begin
  std::uint32_t record_end_ = 0;   // where it ends
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  std::optional<Failure> failure_;
};

}  // namespace tutti
