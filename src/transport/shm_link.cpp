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

}  // namespace

ShmRing& ShmRing::create(void* at, std::size_t capacity) {
  ensure(is_capacity(capacity), "ring capacity is not a power of two within limits");
  ensure(reinterpret_cast<std::uintptr_t>(at) % alignof(ShmRing) == 0, "ring is not aligned");
  auto& ring = *::new (at) ShmRing;
  ring.magic = kMagic;
  ring.capacity = static_cast<std::uint32_t>(capacity);
  return ring;
}

ShmRing* ShmRing::find(void* at, std::size_t available) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(ShmRing) != 0 || available < sizeof(ShmRing)) {
    return nullptr;
  }
  auto* ring = std::launder(static_cast<ShmRing*>(at));
  const std::uint32_t capacity = ring->capacity;
  const bool sound =
      ring->magic == kMagic && is_capacity(capacity) && capacity <= available - sizeof(ShmRing);
  return sound ? ring : nullptr;
}

ShmLink::ShmLink(const Options& options)
    : options_(options), in_mask_(options.in->capacity - 1), out_mask_(options.out->capacity - 1) {
  ensure(is_capacity(in_mask_ + std::size_t{1}) && is_capacity(out_mask_ + std::size_t{1}),
         "ring changed its capacity");
  ensure(options.waker != nullptr, "ring without a waker");
}

/// Bytes the out ring can take.
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

/// Bytes the in ring holds.
std::uint32_t ShmLink::available() {
  const std::uint32_t capacity = in_mask_ + 1;
  const std::uint32_t begin = read_.load(std::memory_order_relaxed);
  if (arrived_ == begin) {
    // acquire: pairs with the producer's post of tail in write(); the bytes are there.
    arrived_ = options_.in->tail.value.load(std::memory_order_acquire);
  }
  if (arrived_ - begin > capacity) {
    fail({.kind = ErrorKind::internal,
          .text = fmt::format("the peer claims to have written {} bytes to {}, which holds {}",
                              arrived_ - begin, options_.name, capacity)});
    arrived_ = begin;
  }
  return arrived_ - begin;
}

void ShmLink::copy_in(std::span<const std::byte> part) {
  const std::size_t at = written_ & out_mask_;
  const std::size_t first = std::min(part.size(), out_mask_ + std::size_t{1} - at);
  std::byte* const bytes = options_.out->bytes();
  std::memcpy(bytes + at, part.data(), first);
  if (first != part.size()) {
    std::memcpy(bytes, part.data() + first, part.size() - first);
  }
  written_ += static_cast<std::uint32_t>(part.size());
}

// A long write is posted in pieces, so that the reader copies the first while the writer is at the
// next. A reader that keeps up makes room meanwhile; hence room() is asked again per piece.
std::size_t ShmLink::write(std::span<const std::span<const std::byte>> parts) {
  if (failed_.load(std::memory_order_relaxed)) {
    return 0;
  }
  const std::size_t piece_limit =
      std::min<std::size_t>(limits::kRingPieceBytes, (out_mask_ + 1) / 4);
  std::size_t total = 0;
  std::size_t piece = 0;  // copied and not posted
  std::size_t free = room();
  for (std::span<const std::byte> part : parts) {
    while (!part.empty() && free != 0) {
      const std::size_t bytes = std::min({part.size(), free, piece_limit - piece});
      copy_in(part.first(bytes));
      part = part.subspan(bytes);
      free -= bytes;
      piece += bytes;
      total += bytes;
      if (piece == piece_limit || free == 0) {
        post(options_.out->tail, written_, options_.mode, *options_.waker);
        piece = 0;
        free = room();
      }
    }
  }
  if (piece != 0) {
    post(options_.out->tail, written_, options_.mode, *options_.waker);
  }
  return total;
}

void ShmLink::copy_out(std::span<std::byte> part) {
  const std::uint32_t begin = read_.load(std::memory_order_relaxed);
  const std::size_t at = begin & in_mask_;
  const std::size_t first = std::min(part.size(), in_mask_ + std::size_t{1} - at);
  const std::byte* const bytes = options_.in->bytes();
  std::memcpy(part.data(), bytes + at, first);
  if (first != part.size()) {
    std::memcpy(part.data() + first, bytes, part.size() - first);
  }
  read_.store(begin + static_cast<std::uint32_t>(part.size()), std::memory_order_relaxed);
}

// The head is posted per quarter of the ring only, which halves the cost of a small message. No
// writer can starve: one that sees no room sees a full ring, and then at least three quarters of it
// are there to be read, in the course of which the head is posted.
std::size_t ShmLink::read(std::span<const std::span<std::byte>> parts) {
  const std::uint32_t quarter = (in_mask_ + 1) / 4;
  std::size_t total = 0;
  for (std::span<std::byte> part : parts) {
    while (!part.empty()) {
      const std::size_t bytes = std::min<std::size_t>({part.size(), available(), quarter});
      if (bytes == 0) {
        return total;
      }
      copy_out(part.first(bytes));
      part = part.subspan(bytes);
      total += bytes;
      const std::uint32_t head = read_.load(std::memory_order_relaxed);
      if (head - read_posted_ >= quarter) {
        read_posted_ = head;
        post(options_.in->head, head, options_.mode, *options_.waker);
      }
    }
  }
  return total;
}

bool ShmLink::readable() const {
  // acquire: as in available(); only a hint, but a reader that trusts it finds the bytes.
  return options_.in->tail.value.load(std::memory_order_acquire) !=
             read_.load(std::memory_order_relaxed) ||
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
  // seq_cst: the look after the registration; see publish.hpp.
  const bool nothing_to_read = options_.in->tail.value.load(std::memory_order_seq_cst) ==
                               read_.load(std::memory_order_relaxed);
  const bool no_room =
      !want_write ||
      written_ - options_.out->head.value.load(std::memory_order_seq_cst) == out_mask_ + 1;
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
