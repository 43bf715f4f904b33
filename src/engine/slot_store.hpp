// SlotStore: how a rank writes into its slots, by cached or by streaming stores. That depends on
// where the readers run. Near (a shared cache) a cached store leaves the data where the reader
// finds it. Far, the line that the reader had copied must first be taken from its cache, which is
// several times slower than a streaming store around all caches. Threads and virtual CPUs move, so
// this is not configured but measured, all the time: copies into slots are timed, and now and then
// one is made the other way. A local choice: where the bytes lie and what they are does not depend
// on it.
#pragma once

#include "base/clock.hpp"
#include "kernels/copy.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

class SlotStore {
 public:
  /// Shorter copies are cached and not timed: the clock would cost too much.
  static constexpr std::size_t kLeastBytes = std::size_t{8} << 10;

  /// Copies into a slot.
  void copy(std::byte* slot, const std::byte* source, std::size_t bytes) {
    if (bytes < kLeastBytes) {
      std::memcpy(slot, source, bytes);
      return;
    }
    const StoreType store = next();
    const TimePoint start = std::chrono::steady_clock::now();
    copy_bytes(slot, source, bytes, store);
    note(store, bytes, std::chrono::steady_clock::now() - start);
  }
  /// For a result that is written into the slot while it is computed.
  StoreType for_result(std::size_t bytes) const {
    return bytes < kLeastBytes ? StoreType::cached : preferred_;
  }

  /// For the next copy that is timed.
  StoreType next() { return ++copies_ % kTrialEvery == 0 ? other(preferred_) : preferred_; }

  /// A copy that next() was asked about took so long.
  void note(StoreType store, std::size_t bytes, Duration taken) {
    const double cost = static_cast<double>(taken.count()) / static_cast<double>(bytes);
    double& known = cost_[index(store)];
    // A copy that was interrupted must not decide; one that was not soon corrects the figure.
    known = known == 0 ? cost : known + (cost < 2 * known ? cost - known : known) / kMemory;
    const double mine = cost_[index(preferred_)];
    const double theirs = cost_[index(other(preferred_))];
    if (theirs != 0 && theirs * kMargin < mine) {
      preferred_ = other(preferred_);
    }
  }

 private:
  static constexpr std::uint32_t kTrialEvery = 32;
  static constexpr double kMemory = 2;    // copies that make up a figure
  static constexpr double kMargin = 1.2;  // by which the other way must be better

  static std::size_t index(StoreType store) { return store == StoreType::cached ? 0 : 1; }
  static StoreType other(StoreType store) {
    return store == StoreType::cached ? StoreType::streaming : StoreType::cached;
  }

  StoreType preferred_ = StoreType::cached;
  std::uint32_t copies_ = 0;
  std::array<double, 2> cost_{};  ///< nanoseconds per byte, smoothed; 0: not known yet
};

}  // namespace tutti
