// Two levels. Hosts h = 1 .. H with n_h ranks each; a host's leader is its lowest rank, in reduce
// and broadcast the root on the root's host.
//
//   all_reduce  local reduce to the leader (in -> acc) · across all_reduce (acc -> out) ·
//               local broadcast
//   reduce      local reduce to the leader (in -> acc) · across reduce to the root (acc -> out)
//   broadcast   across broadcast from the root · local broadcast from the leader
//   barrier     local · across · local: the last one only lets go
//
// Cost: a leader sends over the network what a rank of a group of H sends; the other ranks nothing.
// A stage of a single member is kept where it moves data (in -> acc), so that all leaders start
// from the same buffer.
// Paper: Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan: Exploiting hierarchy in parallel
// computer networks to optimize collective operation performance, IPDPS 2000.
#include "plan/hierarchy.hpp"

#include "base/ensure.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace tutti {

namespace {

/// What the ranks of a host do before and after their leader does the operation across hosts.
struct Levels {
  Op op{};
  std::optional<Op> before{};
  std::optional<Op> after{};
};
constexpr std::array kLevels{
    Levels{.op = Op::all_reduce, .before = Op::reduce, .after = Op::broadcast},
    Levels{.op = Op::reduce, .before = Op::reduce},
    Levels{.op = Op::broadcast, .after = Op::broadcast},
    Levels{.op = Op::barrier, .before = Op::barrier, .after = Op::barrier},
};

const Levels* find_levels(Op op) {
  const auto* const found =
      std::find_if(kLevels.begin(), kLevels.end(), [&](const Levels& row) { return row.op == op; });
  return found == kLevels.end() ? nullptr : found;
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<int> ranks_beside(const Topology& topology, int rank) {
  std::vector<int> ranks;
  const int size = static_cast<int>(topology.host_of_rank.size());
  for (int other = 0; other < size; ++other) {
    if (topology.host_of_rank[at(other)] == topology.host_of_rank[at(rank)]) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

/// Leaders of all hosts, ascending; `root`, if any, leads its own.
std::vector<int> leaders(const Topology& topology, int root) {
  std::vector<int> all;
  const int size = static_cast<int>(topology.host_of_rank.size());
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<int> beside = ranks_beside(topology, rank);
    const bool with_root = std::find(beside.begin(), beside.end(), root) != beside.end();
    if (rank == (with_root ? root : beside.front())) {
      all.push_back(rank);
    }
  }
  return all;
}

int index_of(const std::vector<int>& members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

/// Adds the stages of one rank, leaving out those that it has no part in.
struct Composer {
  Seat me;
  std::vector<int> local;    // this host's ranks
  std::vector<int> leading;  // one rank per host
  int leader;                // of this host
  std::vector<Stage> stages{};

  Composer(Seat seat, int root, const Topology& topology)
      : me(seat),
        local(ranks_beside(topology, seat.rank)),
        leading(leaders(topology, root)),
        leader(-1) {
    const auto leads_here = [&](int rank) { return index_of(leading, rank) < hosts(); };
    leader = *std::find_if(local.begin(), local.end(), leads_here);
  }

  int hosts() const { return static_cast<int>(leading.size()); }

  void add_local(Op op, Buffer from, Buffer to) {
    stages.push_back({.kind = Stage::Kind::local,
                      .op = op,
                      .members = local,
                      .root = index_of(local, leader),
                      .from = from,
                      .to = to});
  }
  /// A stage that changes nothing on a host of one rank.
  void add_local_copy(Op op) {
    if (local.size() > 1) {
      add_local(op, Buffer::out, Buffer::out);
    }
  }
  void add_across(Op op, int root, Buffer from) {
    if (me.rank == leader) {
      stages.push_back({.kind = Stage::Kind::across,
                        .op = op,
                        .members = leading,
                        .root = root < 0 ? 0 : index_of(leading, root),
                        .from = from,
                        .to = Buffer::out});
    }
  }
};

/// Blocks of a stage's plan -> blocks of the group. The group's blocks are cut into one share per
/// member, so that block i of the plan is the i-th share; its range may pass the last member.
std::vector<Range> in_group(const Stage& stage, Range range, Seat me) {
  const int members = static_cast<int>(stage.members.size());
  if (range.count == 0 || stage.op == Op::barrier) {
    return {range};
  }
  std::vector<Range> all;
  for (int i = range.first; i < range.first + range.count; ++i) {
    const int member = i % members;
    const int begin = me.size * member / members;
    const int end = me.size * (member + 1) / members;
    if (begin == end) {
      continue;  // fewer blocks than members
    }
    if (!all.empty() && (all.back().first + all.back().count) % me.size == begin) {
      all.back().count += end - begin;
    } else {
      all.push_back({range.buffer, begin, end - begin});
    }
  }
  return all;
}

bool left_out(const Stage& stage, const Step& step) {
  const bool load = step.kind == Step::Kind::load || step.kind == Step::Kind::copy;
  return (load && stage.from != Buffer::in) ||
         (step.kind == Step::Kind::finish && stage.to == Buffer::acc);
}

void append(Round& round, const Stage& stage, const Step& step, Seat me) {
  if (left_out(stage, step)) {
    return;
  }
  const std::vector<Range> blocks = in_group(stage, step.blocks, me);
  const std::vector<Range> targets = in_group(stage, step.to, me);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Step mapped = step;
    mapped.peer = step.peer < 0 ? -1 : stage.members[at(step.peer)];
    mapped.blocks = blocks[i];
    mapped.to = i < targets.size() ? targets[i] : Range{};
    round.steps.push_back(mapped);
  }
}

const Algorithm& row(Op op, std::string_view name) {
  const Algorithm* found = find_algorithm(op, name);
  ensure(found != nullptr, "a stage's algorithm is in the table");
  return *found;
}

}  // namespace

bool suits_two_level(const Topology& topology) {
  const std::size_t hosts = leaders(topology, -1).size();
  return hosts >= 2 && hosts < topology.host_of_rank.size();
}

bool has_two_level_plan(Op op) { return find_levels(op) != nullptr; }

std::vector<Stage> two_level_stages(Op op, Seat me, int root, const Topology& topology) {
  ensure(me.size == static_cast<int>(topology.host_of_rank.size()), "every rank has a host");
  const Levels* levels = find_levels(op);
  ensure(levels != nullptr && suits_two_level(topology),
         "two_level_stages: see has_two_level_plan and suits_two_level");
  const int leading_root = spec(op).rooted() ? root : -1;
  Composer composer(me, leading_root, topology);
  const bool loads = levels->before && spec(*levels->before).reduces;
  if (loads) {
    composer.add_local(*levels->before, Buffer::in, Buffer::acc);
  } else if (levels->before) {
    composer.add_local_copy(*levels->before);
  }
  composer.add_across(op, leading_root, loads ? Buffer::acc : Buffer::out);
  if (levels->after) {
    composer.add_local_copy(*levels->after);
  }
  return std::move(composer.stages);
}

const Algorithm& low_latency_algorithm(const Stage& stage) {
  return row(stage.op, stage.op == Op::all_reduce ? "recursive_doubling"
                       : stage.op == Op::barrier  ? "dissemination"
                                                  : "binomial");
}

const Algorithm& high_bandwidth_algorithm(const Stage& stage) {
  return stage.op == Op::barrier ? low_latency_algorithm(stage) : row(stage.op, "ring");
}

Plan flatten(std::span<const Stage> stages, Seat me, ChooseAlgorithm choose) {
  Plan plan;
  for (const Stage& stage : stages) {
    const Algorithm& algorithm = choose(stage);
    ensure(algorithm.op == stage.op && algorithm.sum == Sum::in_passing,
           "a stage's algorithm does its operation and sums in passing");
    const Seat seat{index_of(stage.members, me.rank), static_cast<int>(stage.members.size())};
    for (const Round& round : algorithm.plan(seat, stage.root).rounds) {
      Round mapped;
      for (const Step& step : round.steps) {
        append(mapped, stage, step, me);
      }
      if (!mapped.steps.empty()) {
        plan.rounds.push_back(std::move(mapped));
      }
    }
  }
  return plan;
}

}  // namespace tutti
