// CollectiveRun: one collective from start to end, by a direct plan or by messages (a two-level
// plan is a message plan, too). Words its failures. Never waits itself.
#pragma once

#include "base/failure.hpp"
#include "engine/direct_run.hpp"
#include "engine/message_run.hpp"
#include "engine/plan_cache.hpp"
#include "plan/hierarchy.hpp"
#include "plan/select.hpp"
#include "transport/fabric.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Where a group's collectives run: its ranks, and those of them on this host. Lives in the lane.
struct Place {
  Fabric* fabric = nullptr;
  std::uint64_t group = 0;     ///< identity, equal on all ranks
  Seat seat{};                 ///< in the group
  std::vector<int> members{};  ///< group rank -> world rank
  Topology topology{};         ///< group rank -> host
  bool one_host = true;
  bool two_level = false;         ///< several hosts, one of them with several ranks
  std::unique_ptr<Team> team{};   ///< the members on this host
  std::vector<int> team_ranks{};  ///< seat of the team -> group rank
  std::unique_ptr<TeamState> team_state{};
  PlanCache plans{};
};

/// What a run cannot go on without.
struct Obstacle {
  bool line = false;  ///< waits for `blocked`, else for messages
  Blocked blocked{};
};

class CollectiveRun {
 public:
  /// `call` stays in place until the run ended.
  void start(Place& place, const Selection& selection, const Call& call, std::uint64_t sequence);
  /// The same call once more, if nothing has to be looked up for it; false: start() it.
  bool rewind();
  /// True when it ended, well or not.
  bool advance();
  const Obstacle& obstacle() const { return obstacle_; }
  /// While it waits for a line: whether a rank of this CPU must run first.
  bool holds_up_others() const { return direct_.holds_up_others(); }
  bool failed() const {
    return is_direct_ ? direct_.mismatched() : message_.failure().kind != RunFailure::Kind::none;
  }
  /// Set when it ended badly: a mismatch or a lost peer, worded with `context`.
  std::optional<Failure> failure(const OpContext& context) const;
  /// On a slow look: whether some rank called something else, or one this rank waits for is gone.
  std::optional<Failure> inspect(const OpContext& context) const;
  /// Group ranks that have not come yet, as far as this rank can tell.
  std::vector<int> missing() const;
  void cancel();
  /// Bytes of memory for what arrives and is combined, and back with it: not while one runs.
  std::size_t capacity() const { return message_.capacity(); }
  void release_memory() { message_.release_memory(); }
  std::string progress() const;  ///< "4096 of 65536 bytes done"

 private:
  int group_rank(int seat) const;
  Failure lost(const OpContext& context, int rank) const;
  Failure disagreement(const OpContext& context, int seat, std::uint64_t theirs) const;

  Place* place_ = nullptr;
  const Call* call_ = nullptr;
  bool is_direct_ = true;
  DirectRun direct_{};
  MessageRun message_{};
  Obstacle obstacle_{};
  std::uint64_t generation_ = 0;  ///< of the plans when this one was looked up
};

}  // namespace tutti
