// Plans made so far, so that a repeated call makes none. Owner: whoever drives the lane.
#pragma once

#include "plan/algorithms.hpp"
#include "plan/direct_plan.hpp"
#include "plan/hierarchy.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tutti {

class PlanCache {
 public:
  const DirectPlan& direct(Op op, Protocol protocol, Seat seat, int root, int lookahead) {
    for (const DirectEntry& entry : direct_) {
      if (entry.op == op && entry.protocol == protocol && entry.root == root &&
          entry.seat.rank == seat.rank && entry.seat.size == seat.size &&
          entry.lookahead == lookahead) {
        return entry.plan;
      }
    }
    return direct_
        .emplace_back(DirectEntry{op, protocol, seat, root, lookahead,
                                  direct_plan(op, protocol, seat, root, lookahead)})
        .plan;
  }

  const Plan& message(const Algorithm& algorithm, Seat seat, int root) {
    for (const MessageEntry& entry : message_) {
      if (entry.algorithm == &algorithm && entry.root == root && entry.seat.rank == seat.rank &&
          entry.seat.size == seat.size) {
        return entry.plan;
      }
    }
    return message_.emplace_back(MessageEntry{&algorithm, seat, root, algorithm.plan(seat, root)})
        .plan;
  }

  const Plan& two_level(Op op, Seat seat, int root, const Topology& topology, bool large) {
    for (const TwoLevelEntry& entry : two_level_) {
      if (entry.op == op && entry.root == root && entry.large == large) {
        return entry.plan;
      }
    }
    return two_level_
        .emplace_back(
            TwoLevelEntry{op, root, large,
                          flatten(two_level_stages(op, seat, root, topology), seat,
                                  large ? high_bandwidth_algorithm : low_latency_algorithm)})
        .plan;
  }

  /// Plans stay where they are until it changes.
  std::uint64_t generation() const { return generation_; }

  /// Between two operations: keeps the memory bounded whatever roots are used.
  void trim() {
    if (direct_.size() + message_.size() + two_level_.size() > kMaxPlans) {
      direct_.clear();
      message_.clear();
      two_level_.clear();
      ++generation_;
    }
  }

 private:
  static constexpr std::size_t kMaxPlans = 256;
  struct DirectEntry {
    Op op;
    Protocol protocol;
    Seat seat;
    int root;
    int lookahead;
    DirectPlan plan;
  };
  struct MessageEntry {
    const Algorithm* algorithm;
    Seat seat;
    int root;
    Plan plan;
  };
  struct TwoLevelEntry {
    Op op;
    int root;
    bool large;
    Plan plan;
  };
  std::deque<DirectEntry> direct_{};  // deques: a plan in use stays where it is
  std::deque<MessageEntry> message_{};
  std::deque<TwoLevelEntry> two_level_{};
  std::uint64_t generation_ = 0;
};

}  // namespace tutti
