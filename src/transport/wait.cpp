#include "transport/wait.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr unsigned kSpinsPerLook = 16;  // reading the clock costs about as much as this many spins
constexpr Duration kCrowdedSpin = std::chrono::microseconds(4);  // about what a switch costs
constexpr Duration kForever = std::chrono::hours(24 * 365);
constexpr Duration kSlowYield = std::chrono::microseconds(1500);
constexpr Duration kFirstPause = std::chrono::milliseconds(6);
constexpr Duration kLongestPause = std::chrono::milliseconds(200);

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

WaitPolicy WaitPolicy::choose(std::string_view mode, bool oversubscribed) {
  if (mode.empty() || mode == "auto") {
    WaitPolicy policy;
    if (oversubscribed) {
      policy.spin = kCrowdedSpin;
      policy.crowded = true;
    }
    return policy;
  }
  if (mode == "spin") {
    return {.spin = kForever, .yield = Duration::zero(), .sleep = false};
  }
  if (mode == "yield") {
    return {.spin = Duration::zero(), .yield = kForever, .sleep = false};
  }
  if (mode == "sleep") {
    return {.spin = Duration::zero(), .yield = Duration::zero(), .sleep = true};
  }
  throw InvalidArgument(
      fmt::format("TUTTI_WAIT is '{}'; it must be auto, spin, yield or sleep", mode));
}

bool Backoff::pause(bool yield_now) {
  if (phase_ == Phase::spin) {
    if (!yield_now && spin_turn()) {
      return true;
    }
    phase_ = Phase::yield;
  }
  if (phase_ == Phase::yield && !yield_turn()) {
    phase_ = Phase::sleep;
  }
  if (phase_ == Phase::yield && policy_.crowded) {
    phase_ = Phase::spin;
    turns_ = 0;
  }
  return phase_ != Phase::sleep;
}

bool Backoff::spin_turn() {
  if (policy_.spin == Duration::zero()) {
    return false;
  }
  relax();
  if (++turns_ % kSpinsPerLook != 0) {
    return true;
  }
  const TimePoint time = now();
  if (turns_ == kSpinsPerLook) {
    spin_start_ = time;
  }
  return time - spin_start_ < policy_.spin;
}

bool Backoff::yield_turn() {
  if (!yielded_) {
    yielded_ = true;
    yield_start_ = last_ = now();
  }
  if (last_ < load_.no_yield_until || last_ - yield_start_ >= policy_.yield) {
    return false;
  }
  const TimePoint before = policy_.crowded ? now() : last_;
  ::sched_yield();
  last_ = now();
  if (policy_.sleep && last_ - before > kSlowYield) {
    note_foreign_load(last_);
  }
  return true;
}

void Backoff::note_foreign_load(TimePoint time) {
  const bool again = time - load_.last_seen < 4 * load_.pause;
  load_.pause = again ? std::min(2 * load_.pause, kLongestPause) : kFirstPause;
  load_.last_seen = time;
  load_.no_yield_until = time + load_.pause;
}

}  // namespace tutti
