// Two levels. Hosts h = 1 .. H with n_h ranks each; a host's leader is its lowest rank, in reduce
// and broadcast the root on the root's host.
//
//   all_reduce  local reduce to the leader (in -> acc) · across all_reduce (acc -> out) ·
//               local broadcast
//   reduce      local reduce to the leader (in -> acc) · across reduce to the root (acc -> out)
//   broadcast   across broadcast from the root · local broadcast from the leader
//   barrier     local · across · local: the last one only lets go
//   all_gather  local all_gather · across all_gather of whole hosts' blocks · local broadcast of
//   the
//               other hosts' blocks
//
// Cost: a leader sends over the network what a rank of a group of H sends; the other ranks nothing.
// Stages of a single member are kept where they move data (in -> acc, in -> out), so that all
// members of the next stage start from the same buffer.
// Paper: Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan: Exploiting hierarchy in parallel
// computer networks to optimize collective operation performance, IPDPS 2000.
#include "plan/hierarchy.hpp"

#include "base/ensure.hpp"
#include "plan/steps.hpp"

#include <algorithm>

namespace tutti {

namespace {

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

bool consecutive_hosts(const Topology& topology) {
  const int size = static_cast<int>(topology.host_of_rank.size());
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<int> beside = ranks_beside(topology, rank);
    if (beside.back() - beside.front() + 1 != static_cast<int>(beside.size())) {
      return false;
    }
  }
  return true;
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

  void add_local(Op op, Buffer from, Buffer to, std::vector<Range> shares) {
    stages.push_back({.kind = Stage::Kind::local,
                      .op = op,
                      .members = local,
                      .root = index_of(local, leader),
                      .from = from,
                      .to = to,
                      .shares = std::move(shares)});
  }
  /// A stage that changes nothing on a host of one rank.
  void add_local_copy(Op op, std::vector<Range> shares) {
    if (local.size() > 1) {
      add_local(op, Buffer::out, Buffer::out, std::move(shares));
    }
  }
  void add_across(Op op, int root, Buffer from, std::vector<Range> shares) {
    if (me.rank == leader) {
      stages.push_back({.kind = Stage::Kind::across,
                        .op = op,
                        .members = leading,
                        .root = root < 0 ? 0 : index_of(leading, root),
                        .from = from,
                        .to = Buffer::out,
                        .shares = std::move(shares)});
    }
  }
};

void compose_all_gather(Composer& composer, const Topology& topology) {
  std::vector<Range> singles;
  for (const int rank : composer.local) {
    singles.push_back(step::block(Buffer::out, rank));
  }
  std::vector<Range> by_host;
  for (const int rank : composer.leading) {
    by_host.push_back({Buffer::out, rank, static_cast<int>(ranks_beside(topology, rank).size())});
  }
  const int here = static_cast<int>(composer.local.size());
  const Range elsewhere{Buffer::out, (composer.leader + here) % composer.me.size,
                        composer.me.size - here};
  composer.add_local(Op::all_gather, Buffer::in, Buffer::out, singles);
  composer.add_across(Op::all_gather, -1, Buffer::out, by_host);
  composer.add_local_copy(Op::broadcast, {elsewhere});
}

/// Blocks of a stage's plan -> blocks of the group. The stage's data is cut into one share per
/// member, so that block i of its plan is shares[i], or the i-th part of the one range there is.
std::vector<Range> in_group(const Stage& stage, Range range, Seat me) {
  const int members = static_cast<int>(stage.members.size());
  if (range.count == 0 || stage.op == Op::barrier ||
      (range.buffer == Buffer::in && stage.op == Op::all_gather)) {
    return {range};
  }
  std::vector<Range> all;
  for (int i = range.first; i < range.first + range.count; ++i) {
    const int member = i % members;
    Range part;
    if (stage.op == Op::all_gather) {
      part = stage.shares[at(member)];
    } else {
      const Range whole = stage.shares.front();
      const int begin = whole.count * member / members;
      const int end = whole.count * (member + 1) / members;
      part = {range.buffer, (whole.first + begin) % me.size, end - begin};
    }
    if (part.count == 0) {
      continue;  // fewer blocks than members
    }
    if (!all.empty() && (all.back().first + all.back().count) % me.size == part.first) {
      all.back().count += part.count;
    } else {
      all.push_back(part);
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

bool suits_two_level(Op op, const Topology& topology) {
  const std::size_t hosts = leaders(topology, -1).size();
  if (hosts < 2 || hosts == topology.host_of_rank.size()) {
    return false;
  }
  switch (op) {
    case Op::all_reduce:
    case Op::reduce:
    case Op::broadcast:
    case Op::barrier:
      return true;
    case Op::all_gather:
      return consecutive_hosts(topology);
    default:
      return false;
  }
}

std::vector<Stage> two_level_stages(Op op, Seat me, int root, const Topology& topology) {
  ensure(me.size == static_cast<int>(topology.host_of_rank.size()), "every rank has a host");
  ensure(suits_two_level(op, topology), "two_level_stages: see suits_two_level");
  const int leading_root = spec(op).rooted() ? root : -1;
  Composer composer(me, leading_root, topology);
  const std::vector<Range> everything{{Buffer::out, 0, me.size}};
  switch (op) {
    case Op::all_reduce:
      composer.add_local(Op::reduce, Buffer::in, Buffer::acc, everything);
      composer.add_across(Op::all_reduce, -1, Buffer::acc, everything);
      composer.add_local_copy(Op::broadcast, everything);
      break;
    case Op::reduce:
      composer.add_local(Op::reduce, Buffer::in, Buffer::acc, everything);
      composer.add_across(Op::reduce, root, Buffer::acc, everything);
      break;
    case Op::broadcast:
      composer.add_across(Op::broadcast, root, Buffer::out, everything);
      composer.add_local_copy(Op::broadcast, everything);
      break;
    case Op::barrier:
      composer.add_local_copy(Op::barrier, {});
      composer.add_across(Op::barrier, -1, Buffer::out, {});
      composer.add_local_copy(Op::barrier, {});
      break;
    default:
      compose_all_gather(composer, topology);
      break;
  }
  return std::move(composer.stages);
}

const Algorithm& low_latency_algorithm(const Stage& stage) {
  switch (stage.op) {
    case Op::all_reduce:
      return row(stage.op, "recursive_doubling");
    case Op::all_gather:
      return row(stage.op, "bruck");
    case Op::barrier:
      return row(stage.op, "dissemination");
    default:
      return row(stage.op, "binomial");
  }
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
