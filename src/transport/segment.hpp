// Segment: one rank's shared memory. The owner creates it, hands its descriptor to the ranks of its
// host, and allocates areas in it; peers map the same file. A large address range is reserved once
// and the file grows beneath it, so that a new group needs no new mapping. The memory has no name:
// when the last process is gone, however it went, nothing is left. A rank that may have no such
// memory has a segment that nobody maps, and talks to its peers over TCP.
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace tutti {

class Segment {
 public:
  /// A new, empty segment in which areas of `first_bytes` together will have room. Where neither
  /// memfd nor /dev/shm gives that, the memory is this process's own: see why_private. Throws
  /// Unsupported if there is no address space.
  static Segment create(std::size_t first_bytes);
  /// Maps a segment that a peer created. Throws Unsupported if it cannot be mapped.
  static Segment map(UniqueFd fd);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* base() const { return base_; }
  int fd() const { return fd_.get(); }
  /// Copies what the file holds from `offset` on, without touching the mapping: a first touch makes
  /// page tables, and an empty file cannot be touched at all. False if it holds less.
  bool read(std::size_t offset, std::span<std::byte> target) const;
  /// Why no peer can map this memory; empty if they can.
  const std::string& why_private() const { return why_private_; }

  /// What an area of `bytes` takes.
  static constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
  }

  /// Owner: a zeroed area, page aligned. Throws Unsupported naming the size when there is no room.
  std::size_t allocate(std::size_t bytes);
  /// Owner: gives an area back; its memory returns to the system.
  void release(std::size_t offset, std::size_t bytes);
  /// Owner: bytes in areas now.
  std::size_t allocated() const;
  /// Bytes of the file that were touched, and so take memory; 0 for memory of this process's own.
  std::size_t resident() const;

 private:
  static constexpr std::size_t kPage = 4096;

  explicit Segment(UniqueFd fd);
  std::optional<std::size_t> take_free(std::size_t bytes);

  UniqueFd fd_;
  std::byte* base_ = nullptr;
  bool reserve_pages_ = false;  ///< /dev/shm can be full: claim pages before they are touched
  std::string why_private_{};
  std::size_t end_ = 0;  ///< of the areas; guarded by mutex_, as all below
  std::size_t allocated_ = 0;
  std::map<std::size_t, std::size_t> free_{};  ///< offset -> bytes
  mutable std::mutex mutex_;
};

}  // namespace tutti
