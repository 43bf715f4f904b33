// Segment: one rank's shared memory. The owner creates it, hands its descriptor to the ranks of its
// host, and allocates areas in it; peers map the same file. A large address range is reserved once
// and the file grows beneath it, so that a new group needs no new mapping. The memory has no name:
// when the last process is gone, however it went, nothing is left.
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tutti {

class Segment {
 public:
  /// A new, empty segment; throws Unsupported with the reasons if neither memfd nor /dev/shm works.
  static Segment create();
  /// Maps a segment that a peer created. Throws Unsupported if it cannot be mapped.
  static Segment map(UniqueFd fd);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* base() const { return base_; }
  int fd() const { return fd_.get(); }

  /// Owner: a zeroed area, page aligned. Throws Unsupported naming the size when there is no room.
  std::size_t allocate(std::size_t bytes);
  /// Owner: gives an area back; its memory returns to the system.
  void release(std::size_t offset, std::size_t bytes);
  /// Owner: bytes in areas now.
  std::size_t allocated() const;

 private:
  Segment(UniqueFd fd, std::byte* base, bool reserve_pages);
  std::optional<std::size_t> take_free(std::size_t bytes);

  UniqueFd fd_;
  std::byte* base_ = nullptr;
  bool reserve_pages_ = false;  ///< /dev/shm can be full: claim pages before they are touched
  std::size_t end_ = 0;         ///< of the file; guarded by mutex_, as all below
  std::size_t allocated_ = 0;
  std::map<std::size_t, std::size_t> free_{};  ///< offset -> bytes
  mutable std::mutex mutex_;
};

}  // namespace tutti
