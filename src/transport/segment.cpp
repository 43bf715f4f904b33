#include "transport/segment.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"

#include <tutti/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

std::string reason(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

/// Maps the file, or memory of this process's own if there is none.
std::byte* reserve_and_map(int fd) {
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* base = ::mmap(nullptr, limits::kSegmentReserveBytes, PROT_READ | PROT_WRITE,
                      kind | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    throw Unsupported(
        fmt::format("the memory of a rank cannot be mapped: {} (address space of {} bytes; see "
                    "ulimit -v)",
                    reason("mmap"), limits::kSegmentReserveBytes));
  }
  return static_cast<std::byte*>(base);
}

/// A file in /dev/shm without a name, in which `bytes` are claimed. Invalid, with the reason added
/// to `why`, if there is no room.
UniqueFd open_unnamed_shm(std::size_t bytes, std::string& why) {
  UniqueFd fd(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600));
  if (!fd.valid()) {
    why += "; " + reason("open /dev/shm");
    return fd;
  }
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    why += fmt::format("; /dev/shm has no room for {} bytes: {}", bytes, std::strerror(error));
    fd.reset();
  }
  return fd;
}

}  // namespace

Segment Segment::create(std::size_t first_bytes) {
  UniqueFd fd(::memfd_create("tutti", MFD_CLOEXEC));
  if (fd.valid()) {
    return Segment(std::move(fd));
  }
  std::string why = reason("memfd_create");
  fd = open_unnamed_shm(first_bytes, why);
  Segment segment(std::move(fd));
  segment.reserve_pages_ = segment.fd_.valid();
  if (!segment.fd_.valid()) {
    segment.why_private_ = why + "; allow memfd_create or enlarge /dev/shm";
  }
  return segment;
}

Segment Segment::map(UniqueFd fd) { return Segment(std::move(fd)); }

Segment::Segment(UniqueFd fd) : fd_(std::move(fd)), base_(reserve_and_map(fd_.get())) {}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      reserve_pages_(other.reserve_pages_),
      why_private_(std::move(other.why_private_)),
      end_(other.end_),
      allocated_(other.allocated_),
      free_(std::move(other.free_)) {}

Segment::~Segment() {
  if (base_ != nullptr) {
    ::munmap(base_, limits::kSegmentReserveBytes);
  }
}

std::optional<std::size_t> Segment::take_free(std::size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    if (available < bytes) {
      continue;
    }
    free_.erase(it);
    if (available > bytes) {
      free_.emplace(offset + bytes, available - bytes);
    }
    return offset;
  }
  return std::nullopt;
}

std::size_t Segment::allocate(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  bytes = whole_pages(bytes);
  std::size_t offset = end_;
  if (const auto reused = take_free(bytes)) {
    offset = *reused;
  } else if (bytes > limits::kSegmentReserveBytes - end_) {
    throw Unsupported(
        fmt::format("shared memory is used up: {} bytes wanted, {} of {} in use; destroy "
                    "groups that are no longer needed",
                    bytes, allocated_, limits::kSegmentReserveBytes));
  } else if (fd_.valid() && !reserve_pages_ &&
             ::ftruncate(fd_.get(), static_cast<off_t>(end_ + bytes)) != 0) {
    throw Unsupported(
        fmt::format("shared memory cannot grow by {} bytes: {}", bytes, std::strerror(errno)));
  } else {
    end_ += bytes;
  }
  if (reserve_pages_) {
    const int error =
        ::posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (error != 0) {
      free_.emplace(offset, bytes);
      throw Unsupported(
          fmt::format("/dev/shm has no room for {} bytes: {}; enlarge it or allow "
                      "memfd_create",
                      bytes, std::strerror(error)));
    }
  }
  allocated_ += bytes;
  return offset;
}

void Segment::release(std::size_t offset, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  bytes = whole_pages(bytes);
  // Punching the pages out both returns the memory and makes the area read as zeros for its next
  // use.
  const int kept = fd_.valid() ? ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                             static_cast<off_t>(offset), static_cast<off_t>(bytes))
                               : ::madvise(base_ + offset, bytes, MADV_DONTNEED);
  if (kept != 0) {
    std::memset(base_ + offset, 0, bytes);
  }
  allocated_ -= bytes;
  auto [it, inserted] = free_.emplace(offset, bytes);
  ensure(inserted, "an area of a segment is released once");
  if (const auto after = std::next(it); after != free_.end() && offset + bytes == after->first) {
    it->second += after->second;
    free_.erase(after);
  }
  if (it != free_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
  }
}

bool Segment::read(std::size_t offset, std::span<std::byte> target) const {
  const ssize_t got = ::pread(fd_.get(), target.data(), target.size(), static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(target.size());
}

std::size_t Segment::resident() const {
  struct stat file {};
  constexpr std::size_t kBlock = 512;  // the unit of st_blocks, whatever the file system's is
  return fd_.valid() && ::fstat(fd_.get(), &file) == 0
             ? static_cast<std::size_t>(file.st_blocks) * kBlock
             : 0;
}

std::size_t Segment::allocated() const {
  const std::scoped_lock lock(mutex_);
  return allocated_;
}

}  // namespace tutti
