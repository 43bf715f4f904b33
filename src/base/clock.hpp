// Time as the library sees it. The real clock is monotonic; the simulator substitutes its own.
#pragma once

#include <chrono>

namespace tutti {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Where the engine asks for the time. An interface, so that a test can own it.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// A point in time that a wait may not pass. Made from a duration at the first slow look.
class Deadline {
 public:
  Deadline() = default;
  Deadline(TimePoint now, Duration limit) : at_(saturating(now, limit)) {}
  static Deadline after(Duration limit) { return {std::chrono::steady_clock::now(), limit}; }
  bool passed(TimePoint now) const { return now >= at_; }
  /// Time left, never negative.
  Duration left(TimePoint now) const { return now >= at_ ? Duration::zero() : at_ - now; }
  /// For poll(2): milliseconds left, rounded up, at most `cap`.
  int left_ms(TimePoint now, int cap) const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(now)).count();
    return ms > cap ? cap : static_cast<int>(ms);
  }

 private:
  static TimePoint saturating(TimePoint now, Duration limit) {
    return limit > TimePoint::max() - now ? TimePoint::max() : now + limit;
  }
  TimePoint at_ = TimePoint::max();
};

}  // namespace tutti
