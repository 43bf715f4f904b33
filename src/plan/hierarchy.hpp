// Two-level composition for groups that span hosts: an operation becomes stages, each a collective
// among the ranks of one host (local) or among one leader per host (across), so that each byte
// crosses the network as few times as there are hosts, not ranks.
//
// Every rank computes the stages from facts that are equal on all ranks and runs its own, in order.
// Members are in ascending order of ranks, so that sums keep the order of the flat plans. A stage
// is either run as an operation of its own (the local ones by direct plans), or all of them are
// joined into one message plan by flatten().
#pragma once

#include "plan/algorithms.hpp"
#include "plan/plan.hpp"
#include "plan/spec.hpp"

#include <span>
#include <vector>

namespace tutti {

struct Topology {
  std::vector<int> host_of_rank{};  // any numbers; equal means same host
};

struct Stage {
  enum class Kind : std::uint8_t { local, across };
  Kind kind = Kind::local;
  Op op = Op::barrier;
  std::vector<int> members{};  // group ranks, ascending; this rank is one of them
  int root = 0;                // index in members
  /// Where the stage takes its data and leaves it. acc instead of in: already loaded, do not load
  /// again; acc instead of out: not the last sum, do not finish. So a premul factor is applied
  /// once, before anything is added, and rounding and avg's division happen once, after everything
  /// is.
  Buffer from = Buffer::in;
  Buffer to = Buffer::out;
};

/// Whether two levels are possible and differ from one: at least two hosts, one of them with
/// several ranks.
bool suits_two_level(const Topology& topology);

/// Whether the operation has stages.
bool has_two_level_plan(Op op);

/// This rank's stages of an operation that has some, on a topology that two levels suit.
std::vector<Stage> two_level_stages(Op op, Seat me, int root, const Topology& topology);

/// Names the algorithm of a stage; one that sums in passing (Sum::in_passing), because inputs kept
/// in hold cannot stand for partial sums.
using ChooseAlgorithm = const Algorithm& (*)(const Stage& stage);
const Algorithm& low_latency_algorithm(const Stage& stage);
const Algorithm& high_bandwidth_algorithm(const Stage& stage);

/// The stages of rank `me` as one message plan over the whole group.
Plan flatten(std::span<const Stage> stages, Seat me, ChooseAlgorithm choose);

}  // namespace tutti
