// CollectiveItem: one queued or running collective. The one of a blocking call on a quiet lane is
// the lane's own; that of any other call is part of a pooled state, whether the caller gets a
// handle to it or waits itself.
#pragma once

#include "base/clock.hpp"
#include "engine/collective_run.hpp"
#include "engine/staging.hpp"
#include "engine/work.hpp"
#include "plan/request.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace tutti {

struct CollectiveItem {
  Request request{};
  Call call{};
  Staging staging{};
  CollectiveRun run{};
  std::uint64_t sequence = 0;
  Duration timeout{};
  std::optional<Deadline> deadline{};  ///< set at the first slow look
  TimePoint waiting_since{};
  Duration next_report{};
  Duration next_probe{};
  std::optional<Failure> failure{};
  bool started = false;
  WorkState* work = nullptr;                 ///< null for a blocking call
  std::atomic<bool> ended{false};            ///< for blocking calls that had to queue
  std::shared_ptr<CollectiveItem> behind{};  ///< in the lane's queue; its lock

  /// Back to what it was when it was made; Lane::begin() sets the rest.
  void reset();
  /// Forgets what belongs to the caller, and gives large memory back: nobody knows when the state
  /// will be used again.
  void let_go();
};

/// A collective that queues.
class CollectiveWork final : public WorkState {
 public:
  CollectiveItem item{};
};

}  // namespace tutti
