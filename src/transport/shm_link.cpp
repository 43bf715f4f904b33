#include "transport/shm_link.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace tutti {
namespace {

bool is_capacity(std::size_t bytes) {
  return std::has_single_bit(bytes) && bytes >= limits::kMinRingBytes &&
         bytes <= limits::kMaxRingBytes;
}

// A record is its tag, its bytes, and what fills its last cache line.
constexpr std::uint32_t kLineBytes = 64;
constexpr std::uint32_t kTagBytes = sizeof(std::uint32_t);
// The line behind the newest record holds no tag of this lap, so it is never free.
constexpr std::uint32_t kLeastRoom = 2 * kLineBytes;
constexpr std::uint32_t kOddLap = std::uint32_t{1} << 31;

constexpr std::uint32_t record_bytes(std::uint32_t bytes) {
  return (kTagBytes + bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

/// The tag's bit for a record at `position` of a ring of `mask` + 1 bytes.
constexpr std::uint32_t lap_bit(std::uint32_t position, std::uint32_t mask) {
  return (position & (mask + 1)) != 0 ? kOddLap : 0;
}

/// Bytes of the record that `tag` announces at `position`; 0 if it is not of this lap.
constexpr std::uint32_t announced(std::uint32_t tag, std::uint32_t position, std::uint32_t mask) {
  const std::uint32_t bytes = tag ^ lap_bit(position, mask);
  return (bytes & kOddLap) == 0 ? bytes : 0;
}

std::atomic_ref<std::uint32_t> tag_at(ShmRing& ring, std::uint32_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(ring.bytes() + offset));
}

}  // namespace

ShmRing& ShmRing::create(void* at, std::size_t capacity) {
  ensure(is_capacity(capacity), "ring capacity is not a power of two within limits");
  ensure(reinterpret_cast<std::uintptr_t>(at) % alignof(ShmRing) == 0, "ring is not aligned");
  auto& ring = *::new (at) ShmRing;
  ring.magic = kMagic;
  ring.capacity = static_cast<std::uint32_t>(capacity);
  tag_at(ring, 0).store(0, std::memory_order_relaxed);  // shared later, by other means
  return ring;
}

ShmRing* ShmRing::find(void* at, std::size_t available) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(ShmRing) != 0 || available < sizeof(ShmRing)) {
    return nullptr;
  }
  auto* ring = std::launder(static_cast<ShmRing*>(at));
  return is_sound(ring->magic, ring->capacity, available) ? ring : nullptr;
}

bool ShmRing::is_sound(std::uint32_t magic, std::uint32_t capacity, std::size_t available) {
  return magic == kMagic && is_capacity(capacity) && capacity <= available - sizeof(ShmRing);
}

ShmLink::ShmLink(const Options& options)
    : options_(options),
      in_mask_(options.in_capacity - 1),
      out_mask_(options.out->capacity - 1),
      tag_lines_((out_mask_ + std::size_t{1}) / kLineBytes, false) {
  ensure(is_capacity(in_mask_ + std::size_t{1}) && is_capacity(out_mask_ + std::size_t{1}),
         "ring changed its capacity");
  ensure(options.waker != nullptr, "ring without a waker");
}

/// Bytes of the out ring that may be written.
std::uint32_t ShmLink::room() {
  const std::uint32_t capacity = out_mask_ + 1;
  std::uint32_t used = written_ - freed_;
  if (used > capacity / 2) {
    // acquire: pairs with the consumer's post of head in read(); it has finished copying those
    // bytes out before they are overwritten.
    freed_ = options_.out->head.value.load(std::memory_order_acquire);
    used = written_ - freed_;
  }
  if (used > capacity) {
    fail({.kind = ErrorKind::internal,
          .text = fmt::format("the peer claims to have read {} bytes beyond what was written to {}",
                              freed_ - written_, options_.name)});
    freed_ = written_ - capacity;  // nothing can be written any more
    return 0;
  }
  return capacity - used;
}

void ShmLink::copy_in(std::uint32_t position, std::span<const std::byte> part) {
  const std::size_t at = position & out_mask_;
  const std::size_t first = std::min(part.size(), out_mask_ + std::size_t{1} - at);
  std::byte* const bytes = options_.out->bytes();
  std::memcpy(bytes + at, part.data(), first);
  if (first != part.size()) {
    std::memcpy(bytes, part.data() + first, part.size() - first);
  }
}

// A long write becomes several records, so that the reader copies the first while the writer is at
// the next. A reader that keeps up makes room meanwhile; hence room() is asked again per record.
std::size_t ShmLink::write(std::span<const std::span<const std::byte>> parts) {
  if (failed_.load(std::memory_order_relaxed)) {
    return 0;
  }
  std::size_t left = 0;
  for (const auto& part : parts) {
    left += part.size();
  }
  const std::size_t record_limit =
      std::min<std::size_t>(limits::kRingPieceBytes, (out_mask_ + 1) / 4) - kTagBytes;
  std::size_t total = 0;
  std::size_t skip = 0;  // of the first part
  while (left != 0) {
    const std::size_t free = room();
    if (free < kLeastRoom) {
      break;
    }
    const std::size_t bytes = std::min({left, record_limit, free - kLineBytes - kTagBytes});
    std::uint32_t position = written_ + kTagBytes;
    for (std::size_t rest = bytes; rest != 0;) {
      const auto piece =
          parts.front().subspan(skip).first(std::min(rest, parts.front().size() - skip));
      copy_in(position, piece);
      position += static_cast<std::uint32_t>(piece.size());
      rest -= piece.size();
      skip += piece.size();
      if (skip == parts.front().size()) {
        parts = parts.subspan(1);
        skip = 0;
      }
    }
    publish(static_cast<std::uint32_t>(bytes));
    left -= bytes;
    total += bytes;
  }
  return total;
}

/// A record of `lines` at `position`: its first line now begins with a tag, the others do not.
void ShmLink::note_tag_line(std::uint32_t position, std::size_t lines) {
  const std::size_t first = (position & out_mask_) / kLineBytes;
  const std::size_t end = std::min(first + lines, tag_lines_.size());
  const auto line = [this](std::size_t i) {
    return tag_lines_.begin() + static_cast<std::ptrdiff_t>(i);
  };
  tag_lines_[first] = true;
  std::fill(line(first + 1), line(end), false);
  std::fill(line(0), line(first + lines - end), false);  // around the end of the ring
}

/// The record that begins at written_ and holds `bytes` is complete.
void ShmLink::publish(std::uint32_t bytes) {
  const std::uint32_t next = written_ + record_bytes(bytes);
  note_tag_line(written_, record_bytes(bytes) / kLineBytes);
  // Before the tag that lets the reader look there: what lies in that place must not pass for a
  // tag. One of the lap before does not, and then nothing is written: to take a line back from the
  // reader's cache would delay this record by as long as the record itself takes.
  if (!tag_lines_[(next & out_mask_) / kLineBytes]) {
    tag_at(*options_.out, next & out_mask_).store(0, std::memory_order_relaxed);
  }
  // release: pairs with the acquire in available(); the bytes of the record are there, and so is
  // what was last written behind it.
  tag_at(*options_.out, written_ & out_mask_)
      .store(bytes | lap_bit(written_, out_mask_), std::memory_order_release);
  written_ = next;
  post(options_.out->tail, written_, options_.mode, *options_.waker);
}

/// Bytes of the record at read_ that were not read yet; 0: it is not there.
std::uint32_t ShmLink::available() {
  if (unread_ != 0) {
    return unread_;
  }
  const std::uint32_t begin = read_;
  // acquire: pairs with the release in publish().
  const std::uint32_t bytes = announced(
      tag_at(*options_.in, begin & in_mask_).load(std::memory_order_acquire), begin, in_mask_);
  if (bytes > in_mask_ + 1 - kLineBytes - kTagBytes) {
    fail({.kind = ErrorKind::internal,
          .text = fmt::format("the peer claims to have written {} bytes to {}, which holds {}",
                              bytes, options_.name, in_mask_ + 1)});
    return 0;
  }
  unread_ = bytes;
  cursor_ = begin + kTagBytes;
  record_end_ = begin + record_bytes(bytes);
  return bytes;
}

void ShmLink::copy_out(std::span<std::byte> part) {
  const std::size_t at = cursor_ & in_mask_;
  const std::size_t first = std::min(part.size(), in_mask_ + std::size_t{1} - at);
  const std::byte* const bytes = options_.in->bytes();
  std::memcpy(part.data(), bytes + at, first);
  if (first != part.size()) {
    std::memcpy(part.data() + first, bytes, part.size() - first);
  }
  cursor_ += static_cast<std::uint32_t>(part.size());
  unread_ -= static_cast<std::uint32_t>(part.size());
}

// The head is posted per quarter of the ring only, which halves the cost of a small message. No
// writer can starve: one that sees no room sees a full ring, and then at least half of it are there
// to be read, in the course of which the head is posted.
std::size_t ShmLink::read(std::span<const std::span<std::byte>> parts) {
  const std::uint32_t quarter = (in_mask_ + 1) / 4;
  std::size_t total = 0;
  for (std::span<std::byte> part : parts) {
    while (!part.empty()) {
      const std::size_t bytes = std::min<std::size_t>(part.size(), available());
      if (bytes == 0) {
        return total;
      }
      copy_out(part.first(bytes));
      part = part.subspan(bytes);
      total += bytes;
      if (unread_ != 0) {
        continue;
      }
      read_ = record_end_;
      if (read_ - read_posted_ >= quarter) {
        read_posted_ = read_;
        post(options_.in->head, read_, options_.mode, *options_.waker);
      }
    }
  }
  return total;
}

bool ShmLink::readable() const {
  // acquire: as in available(); only a hint, but a reader that trusts it finds the bytes.
  return unread_ != 0 ||
         announced(tag_at(*options_.in, read_ & in_mask_).load(std::memory_order_acquire), read_,
                   in_mask_) != 0 ||
         failed_.load(std::memory_order_relaxed);
}

/// Registers this rank's bell in a line, unless it still stands there from an earlier sleep: only a
/// wake-up takes it out, so the barrier paid then still holds, and a peer that posts after the look
/// that follows will see it.
bool ShmLink::register_bell(Line& line) const {
  if ((line.sleepers.load(std::memory_order_seq_cst) & options_.bell_bit) != 0) {
    return false;
  }
  register_sleeper(line, options_.bell_bit, options_.mode);
  return true;
}

bool ShmLink::arm(bool want_write) {
  register_bell(options_.in->tail);
  if (want_write) {
    register_bell(options_.out->head);
  }
  // seq_cst: the look after the registration; see publish.hpp. The tail is posted after the tag.
  const bool nothing_to_read =
      unread_ == 0 && options_.in->tail.value.load(std::memory_order_seq_cst) == read_;
  const bool no_room =
      !want_write ||
      out_mask_ + 1 - (written_ - options_.out->head.value.load(std::memory_order_seq_cst)) <
          kLeastRoom;
  return nothing_to_read && no_room && !failed_.load(std::memory_order_seq_cst);
}

void ShmLink::fail(const Failure& failure) {
  const std::scoped_lock lock(failure_mutex_);
  if (!failure_) {
    failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
}

std::optional<Failure> ShmLink::failure() {
  // acquire: pairs with the release in fail(), which any thread may call.
  if (!failed_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  const std::scoped_lock lock(failure_mutex_);
  return failure_;
}

}  // namespace tutti
