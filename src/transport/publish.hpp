// The publish/sleep pair: how one rank makes a number visible to others and how they sleep until it
// is. This file is the only home of fences in the project.
//
// An Epoch lives in shared memory. Its value only grows (modulo 2^32). The owner posts; others
// wait.
//   post(v):   value = v (release); if somebody registered in `sleepers`, wake them.
//   sleep:     register in `sleepers`; full barrier; look at the value once more; sleep, unless the
//              registration has been taken meanwhile.
// The store of `value` and the load of `sleepers` by the poster must not be swapped against the
// sleeper's two steps, or a wake-up is lost. Two ways to forbid that:
//   exchange:   the poster's store is a read-modify-write (sequentially consistent): about 60 ns
//   each. asymmetric: the poster uses a plain store, and the sleeper pays: membarrier(2) makes
//   every thread
//               of every registered process execute a full barrier. Only right if all ranks that
//               post to the line registered; agreed when the segment is made.
// Under the thread sanitizer only the exchange form is compiled: it cannot see membarrier.
// Either way a sleep is bounded (limits::kSleepSlice), so a bug here costs time, not liveness.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti {

/// A published number and who sleeps for it. May share its cache line with what it publishes.
struct Epoch {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
};
/// An Epoch in a cache line of its own.
struct alignas(64) Line : Epoch {};

/// Whether `value` has come to `target`, in arithmetic modulo 2^32.
constexpr bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

inline bool reached(const Epoch& line, std::uint32_t target) {
  // acquire: pairs with the release in post(); what was written before the post is visible.
  return reached(line.value.load(std::memory_order_acquire), target);
}

/// Bits of Epoch::sleepers. Bit 31: someone sleeps on the line's futex. Bits 0..15: the rank with
/// this seat (modulo 16) sleeps on its bell, an eventfd. Between them: how often registrations were
/// taken (modulo 2^15). The post before the awaited one may take a registration and find nobody
/// asleep yet; then this number tells the sleeper that no later post would find it.
inline constexpr int kBells = 16;
inline constexpr std::uint32_t kFutexSleeper = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kTaking = std::uint32_t{1} << kBells;
inline constexpr std::uint32_t kRegistrations = kFutexSleeper | (kTaking - 1);
constexpr std::uint32_t bell_bit(int seat) { return std::uint32_t{1} << (seat % kBells); }
/// `sleepers` without the registrations, taken once more.
constexpr std::uint32_t without_registrations(std::uint32_t sleepers) {
  return ((sleepers & ~kRegistrations) + kTaking) & ~kRegistrations;
}

enum class PublishMode : std::uint8_t { exchange, asymmetric };

/// Wakes those that registered. The owner of a line knows the bells of its possible sleepers.
class Waker {
 public:
  Waker() = default;
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  virtual ~Waker() = default;
  /// Rings the bell of every seat named in `bits`.
  virtual void ring(std::uint32_t bits) = 0;
};

/// Slow half of post(): takes the sleepers' registrations and wakes them.
void wake_sleepers(Epoch& line, Waker& waker);

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kAsymmetricAllowed = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kAsymmetricAllowed = false;
#else
inline constexpr bool kAsymmetricAllowed = true;
#endif
#else
inline constexpr bool kAsymmetricAllowed = true;
#endif

inline void post(Epoch& line, std::uint32_t value, PublishMode mode, Waker& waker) {
  if (kAsymmetricAllowed && mode == PublishMode::asymmetric) {
    line.value.store(value, std::memory_order_release);
    // Keeps the compiler from swapping store and load; the CPU's swap is undone by the sleeper's
    // membarrier.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    line.value.exchange(value, std::memory_order_seq_cst);
  }
  if ((line.sleepers.load(std::memory_order_seq_cst) & kRegistrations) != 0) [[unlikely]] {
    wake_sleepers(line, waker);
  }
}

/// Announces a sleeper: afterwards the value must be looked at once more before sleeping. Returns
/// `sleepers` with the registration.
std::uint32_t register_sleeper(Epoch& line, std::uint32_t bit, PublishMode mode);

/// Sleeps on the futex of `line` until a post takes `registration`, at most `limit`. The caller has
/// registered kFutexSleeper, which gave that number, and looked again.
void futex_sleep(Epoch& line, std::uint32_t registration, std::chrono::nanoseconds limit);

/// Registers this process for membarrier; false where the kernel or a sandbox refuses.
bool register_for_membarrier();

}  // namespace tutti
