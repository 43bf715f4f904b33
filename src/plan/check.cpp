// Runs all ranks' machines together: rounds, messages in flight, and the comparison at the end.
#include "plan/check.hpp"

#include "plan/expressions.hpp"
#include "plan/machine.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <utility>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool in_flight(Step::Kind kind) {
  return kind == Step::Kind::send || kind == Step::Kind::recv || kind == Step::Kind::recv_reduce;
}

class Run {
 public:
  Run(const PlanCase& what, std::span<const Plan> plans, const Definition& definition)
      : what_(what),
        plans_(plans),
        definition_(definition),
        size_(static_cast<int>(plans.size())),
        expressions_(size_),
        ranks_(plans.size()),
        channels_(plans.size() * plans.size()) {
    for (int rank = 0; rank < size_; ++rank) {
      machines_.emplace_back(what.op, Seat{rank, size_}, what.root, expressions_);
      if (what.op == Op::barrier) {
        ranks_[at(rank)].heard.assign(at(size_), false);
        ranks_[at(rank)].heard[at(rank)] = true;
      }
    }
  }

  std::string check() {
    for (int rank = 0; rank < size_; ++rank) {
      ready_.push_back(rank);
    }
    while (!ready_.empty() && fault_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      enter_round(rank);
    }
    if (fault_.empty()) {
      check_all_ended();
    }
    for (int rank = 0; rank < size_ && fault_.empty(); ++rank) {
      check_result(rank);
    }
    return fault_;
  }

 private:
  struct Progress {
    std::size_t round = 0;
    std::vector<bool> pending{};  // per step of the round
    int open = 0;                 // pending steps
    std::vector<bool> heard{};    // barrier: ranks whose entering this one knows of
  };
  struct Posted {
    int rank = -1;
    int step = -1;
    Cargo cargo{};
    std::vector<bool> heard{};
  };
  /// From one rank to another: what waits for its counterpart, all sends or all receives.
  struct Channel {
    std::vector<Posted> queue{};
    std::size_t first = 0;
    bool of_sends = false;
  };

  std::string front(int rank) const {
    return fmt::format("{} '{}' at world size {} (root {}), rank {}", spec(what_.op).name,
                       what_.algorithm, size_, what_.root, rank);
  }

  void fail(int rank, int step, const std::string& why) {
    if (fault_.empty() && !why.empty()) {
      fault_ =
          fmt::format("{}, round {}, step {}: {}", front(rank), ranks_[at(rank)].round, step, why);
    }
  }

  /// Runs the local steps of the next round that has any in flight, and posts those.
  void enter_round(int rank) {
    Progress& mine = ranks_[at(rank)];
    const std::vector<Round>& rounds = plans_[at(rank)].rounds;
    while (mine.round < rounds.size() && fault_.empty()) {
      if (start(rank, rounds[mine.round])) {
        return;  // end_step goes on, perhaps already has
      }
      ++mine.round;
    }
  }

  /// Whether the round has steps in flight.
  bool start(int rank, const Round& round) {
    Progress& mine = ranks_[at(rank)];
    const int steps = static_cast<int>(round.steps.size());
    mine.pending.assign(round.steps.size(), false);
    mine.open = 0;
    for (int index = 0; index < steps; ++index) {
      const Step& step = round.steps[at(index)];
      if (in_flight(step.kind)) {
        mine.pending[at(index)] = true;
        ++mine.open;
        check_peer(rank, index, step);
      } else if (mine.open > 0) {
        fail(rank, index, "is a local step after one in flight; local steps come first");
      } else {
        fail(rank, index, machines_[at(rank)].run_local(step));
      }
    }
    if (const std::string fault = machines_[at(rank)].check_flight(round);
        !fault.empty() && fault_.empty()) {
      fault_ = fmt::format("{}, round {}, {}", front(rank), mine.round, fault);
    }
    const bool any = mine.open > 0;
    for (int index = 0; index < steps && fault_.empty(); ++index) {
      if (in_flight(round.steps[at(index)].kind)) {
        post(rank, index, round.steps[at(index)]);
      }
    }
    return any;
  }

  void check_peer(int rank, int index, const Step& step) {
    if (step.peer < 0 || step.peer >= size_ || step.peer == rank) {
      fail(rank, index, fmt::format("names peer {}, which is no other rank", step.peer));
    }
  }

  void post(int rank, int index, const Step& step) {
    Posted posted{.rank = rank, .step = index, .heard = ranks_[at(rank)].heard};
    const bool sends = step.kind == Step::Kind::send;
    if (sends) {
      fail(rank, index, machines_[at(rank)].take_from(step, posted.cargo));
    }
    Channel& channel =
        channels_[sends ? at(rank * size_ + step.peer) : at(step.peer * size_ + rank)];
    if (channel.first == channel.queue.size()) {
      channel.queue.clear();
      channel.first = 0;
      channel.of_sends = sends;
    }
    if (channel.of_sends == sends) {
      channel.queue.push_back(std::move(posted));
      return;
    }
    const Posted partner = std::move(channel.queue[channel.first++]);
    if (fault_.empty()) {
      sends ? deliver(posted, partner) : deliver(partner, posted);
    }
  }

  void deliver(const Posted& send, const Posted& recv) {
    const Step& step =
        plans_[at(recv.rank)].rounds[ranks_[at(recv.rank)].round].steps[at(recv.step)];
    fail(recv.rank, recv.step, machines_[at(recv.rank)].give_to(step, send.cargo));
    for (std::size_t rank = 0; rank < send.heard.size(); ++rank) {
      if (send.heard[rank]) {
        ranks_[at(recv.rank)].heard[rank] = true;
      }
    }
    end_step(send);
    end_step(recv);
  }

  void end_step(const Posted& posted) {
    Progress& progress = ranks_[at(posted.rank)];
    progress.pending[at(posted.step)] = false;
    if (--progress.open == 0) {
      ++progress.round;
      ready_.push_back(posted.rank);
    }
  }

  void check_all_ended() {
    for (int rank = 0; rank < size_; ++rank) {
      const Progress& mine = ranks_[at(rank)];
      for (std::size_t index = 0; mine.open > 0 && index < mine.pending.size(); ++index) {
        if (mine.pending[index]) {
          const Step& step = plans_[at(rank)].rounds[mine.round].steps[index];
          fail(rank, static_cast<int>(index),
               fmt::format("waits for ever to {} rank {}: deadlock",
                           step.kind == Step::Kind::send ? "send to" : "receive from", step.peer));
        }
      }
    }
  }

  void check_result(int rank) {
    const Machine& machine = machines_[at(rank)];
    const std::vector<Content> wanted = definition_(what_.op, Seat{rank, size_}, what_.root);
    if (machine.blocks(Buffer::out) != static_cast<int>(wanted.size())) {
      fault_ = fmt::format("{}: out has {} blocks, the definition {}", front(rank),
                           machine.blocks(Buffer::out), wanted.size());
      return;
    }
    for (int block = 0; block < machine.blocks(Buffer::out) && fault_.empty(); ++block) {
      const std::string fault = compare(machine.value(Buffer::out, block), wanted[at(block)]);
      if (!fault.empty()) {
        fault_ = fmt::format("{}, at the end: {}; wanted: {}", front(rank),
                             machine.text(Buffer::out, block), fault);
      }
    }
    for (int other = 0; what_.op == Op::barrier && other < size_ && fault_.empty(); ++other) {
      if (!ranks_[at(rank)].heard[at(other)]) {
        fault_ = fmt::format("{}, at the end: leaves without knowing that rank {} has entered",
                             front(rank), other);
      }
    }
  }

  /// "" or what was wanted.
  std::string compare(Expressions::Id held, const Content& wanted) {
    switch (wanted.kind) {
      case Content::Kind::anything:
        return {};
      case Content::Kind::untouched:
        return held == Machine::kUnwritten ? "" : "untouched";
      case Content::Kind::input: {
        const Expressions::Id input = expressions_.input(wanted.rank, wanted.block);
        return held == input ? "" : expressions_.text(input);
      }
      case Content::Kind::reduced:
        break;
    }
    if (held < 0 || !expressions_.reduces(held, wanted.block)) {
      return fmt::format("block {} of every rank, reduced and finished", wanted.block);
    }
    const auto [first, is_first] = same_tree_.try_emplace(wanted.block, held);
    if (held != first->second) {
      return fmt::format("the tree that the ranks before have: {}",
                         expressions_.text(first->second));
    }
    const Expressions::Id in_order =
        is_first && what_.sum == Sum::rank_order ? expressions_.rank_order(wanted.block) : held;
    return held == in_order ? "" : fmt::format("rank order: {}", expressions_.text(in_order));
  }

  PlanCase what_;
  std::span<const Plan> plans_;
  const Definition& definition_;
  int size_;
  Expressions expressions_;
  std::vector<Machine> machines_;
  std::vector<Progress> ranks_;
  std::vector<Channel> channels_;  // from * size + to
  std::deque<int> ready_;
  std::map<int, Expressions::Id> same_tree_;  // block -> its tree on the first rank that has it
  std::string fault_;
};

}  // namespace

std::vector<Content> standard_definition(Op op, Seat me, int root) {
  const auto every_block = [&](auto content) {
    std::vector<Content> all;
    for (int block = 0; block < plan_out_blocks(op, me.rank, root, me.size); ++block) {
      all.push_back(content(block));
    }
    return all;
  };
  using Kind = Content::Kind;
  switch (op) {
    case Op::all_reduce:
    case Op::reduce:
      return every_block([](int block) { return Content{Kind::reduced, 0, block}; });
    case Op::reduce_scatter:
      return every_block([&](int) { return Content{Kind::reduced, 0, me.rank}; });
    case Op::broadcast:
      return every_block([&](int block) { return Content{Kind::input, root, block}; });
    case Op::all_gather:
    case Op::gather:
      return every_block([](int block) { return Content{Kind::input, block, 0}; });
    case Op::scatter:
      return every_block([&](int) { return Content{Kind::input, root, me.rank}; });
    case Op::all_to_all:
      return every_block([&](int block) { return Content{Kind::input, block, me.rank}; });
    case Op::barrier:
    case Op::send:
    case Op::recv:
      break;
  }
  return {};
}

std::string check_plans(const PlanCase& what, std::span<const Plan> plans,
                        const Definition& definition) {
  return Run(what, plans, definition).check();
}

std::string check_algorithm(const Algorithm& row, int size, int root) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < size; ++rank) {
    plans.push_back(row.plan({rank, size}, root));
  }
  return check_plans({.op = row.op, .algorithm = row.name, .root = root, .sum = row.sum}, plans);
}

}  // namespace tutti
