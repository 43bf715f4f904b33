// The cost table of docs/algorithms.md, counted in the plans themselves: rounds on the longest
// chain of messages, and blocks that the busiest rank sends.
#include "plan/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {
namespace {

int log2_up(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }
int log2_down(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1; }
bool power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }
int core(int n) { return 1 << log2_down(n); }
int folded(int n) { return power_of_two(n) ? 0 : 2; }

struct Cost {
  int rounds = 0;
  int blocks = 0;
  bool operator==(const Cost&) const = default;
};

constexpr Cost cost(int rounds, int blocks) { return {rounds, blocks}; }

struct Row {
  Op op;
  std::string_view name;
  Cost (*cost)(int n);
};

// Blocks: shares of the cut data, or what a rank contributes; n of them are B of the docs' table.
const std::vector<Row> kCosts{
    {Op::all_reduce, "ring", [](int n) { return cost(2 * (n - 1), 2 * (n - 1)); }},
    {Op::all_reduce, "recursive_doubling",
     [](int n) { return cost(log2_down(n) + folded(n), n * (log2_down(n) + folded(n) / 2)); }},
    {Op::all_reduce, "pairwise", [](int n) { return cost(2 * (n - 1), 2 * (n - 1)); }},
    {Op::reduce, "binomial", [](int n) { return cost(log2_up(n), n); }},
    {Op::reduce, "ring", [](int n) { return cost(n, n); }},
    {Op::reduce, "pairwise", [](int n) { return cost(n, n); }},
    {Op::broadcast, "binomial", [](int n) { return cost(log2_down(n), n * log2_up(n)); }},
    {Op::broadcast, "linear", [](int n) { return cost(1, n * (n - 1)); }},
    {Op::all_gather, "ring", [](int n) { return cost(n - 1, n - 1); }},
    {Op::all_gather, "bruck", [](int n) { return cost(log2_up(n), n - 1); }},
    {Op::all_gather, "pairwise", [](int n) { return cost(n - 1, n - 1); }},
    {Op::reduce_scatter, "ring", [](int n) { return cost(n - 1, n - 1); }},
    {Op::reduce_scatter, "pairwise", [](int n) { return cost(n - 1, n - 1); }},
    {Op::scatter, "linear", [](int n) { return cost(1, n - 1); }},
    {Op::scatter, "binomial", [](int n) { return cost(log2_down(n), n - 1); }},
    {Op::gather, "linear", [](int) { return cost(1, 1); }},
    {Op::gather, "binomial",
     [](int n) { return cost(log2_down(n), std::max(n - core(n), core(n) / 2)); }},
    {Op::all_to_all, "pairwise", [](int n) { return cost(n - 1, n - 1); }},
    {Op::all_to_all, "linear", [](int n) { return cost(1, n - 1); }},
    {Op::barrier, "dissemination", [](int n) { return cost(log2_up(n), 0); }},
};

/// Logical time: a message leaves when its round starts and takes one unit; a round with messages
/// takes a unit or until the last one has arrived.
class Clock {
 public:
  explicit Clock(std::vector<Plan> plans) : plans_(std::move(plans)), ends_(plans_.size()) {}

  int longest_chain() {
    number_messages();
    // Round ends only ever grow; as many passes as there are rounds are enough.
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
        changed = pass(rank) || changed;
      }
    }
    int last = 0;
    for (const std::vector<int>& ends : ends_) {
      last = std::max(last, ends.empty() ? 0 : ends.back());
    }
    return last;
  }

 private:
  struct Key {
    int from;
    int to;
    int number;
    auto operator<=>(const Key&) const = default;
  };
  struct Message {
    Key key;
    std::size_t round;
  };

  void number_messages() {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const int self = static_cast<int>(rank);
      std::map<std::pair<int, int>, int> next;
      ends_[rank].assign(plans_[rank].rounds.size(), 0);
      for (std::size_t round = 0; round < plans_[rank].rounds.size(); ++round) {
        for (const Step& step : plans_[rank].rounds[round].steps) {
          if (step.kind == Step::Kind::send) {
            departs_[{self, step.peer, next[{self, step.peer}]++}] = {rank, round};
          } else if (step.peer >= 0) {
            arrivals_.push_back({{step.peer, self, next[{step.peer, self}]++}, round});
          }
        }
      }
    }
  }

  bool pass(std::size_t rank) {
    const std::vector<Round>& rounds = plans_[rank].rounds;
    std::vector<int> ends(rounds.size(), 0);
    for (const Message& message : arrivals_) {
      if (message.key.to == static_cast<int>(rank)) {
        const auto [sender, round] = departs_.at(message.key);
        const int start = round == 0 ? 0 : ends_[sender][round - 1];
        ends[message.round] = std::max(ends[message.round], start + 1);
      }
    }
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      const std::vector<Step>& steps = rounds[round].steps;
      const bool transfers =
          std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.peer >= 0; });
      const int start = round == 0 ? 0 : ends[round - 1];
      ends[round] = std::max(ends[round], start + (transfers ? 1 : 0));
    }
    return std::exchange(ends_[rank], ends) != ends;
  }

  std::vector<Plan> plans_;
  std::vector<std::vector<int>> ends_;
  std::map<Key, std::pair<std::size_t, std::size_t>> departs_;
  std::vector<Message> arrivals_;
};

Cost measure(Op op, std::string_view name, int n) {
  std::vector<Plan> plans;
  Cost cost;
  for (int rank = 0; rank < n; ++rank) {
    plans.push_back(find_algorithm(op, name)->plan({rank, n}, 0));
    int blocks = 0;
    for (const Round& round : plans.back().rounds) {
      for (const Step& step : round.steps) {
        blocks += step.kind == Step::Kind::send ? step.blocks.count : 0;
      }
    }
    cost.blocks = std::max(cost.blocks, blocks);
  }
  cost.rounds = Clock(std::move(plans)).longest_chain();
  return cost;
}

TEST(Cost, IsWhatTheDocumentsSay) {
  for (const Row& row : kCosts) {
    for (int n = 2; n <= 17; ++n) {
      const Cost cost = measure(row.op, row.name, n);
      EXPECT_EQ(cost.rounds, row.cost(n).rounds)
          << spec(row.op).name << " " << row.name << " " << n;
      EXPECT_EQ(cost.blocks, row.cost(n).blocks)
          << spec(row.op).name << " " << row.name << " " << n;
    }
  }
}

TEST(Cost, OfHalvingIsExactForPowersOfTwoAndBoundedOtherwise) {
  for (int n = 2; n <= 33; ++n) {
    const Cost all_reduce = measure(Op::all_reduce, "halving_doubling", n);
    const Cost reduce_scatter = measure(Op::reduce_scatter, "halving", n);
    EXPECT_EQ(all_reduce.rounds, 2 * log2_down(n) + folded(n)) << n;
    EXPECT_EQ(reduce_scatter.rounds, log2_down(n) + folded(n)) << n;
    if (power_of_two(n)) {
      EXPECT_EQ(all_reduce.blocks, 2 * (n - 1));
      EXPECT_EQ(reduce_scatter.blocks, n - 1);
    } else {  // a place answers for up to two blocks, a host returns n, a guest gives n
      EXPECT_LE(all_reduce.blocks, 2 * 2 * (core(n) - 1) + n) << n;
      EXPECT_LE(reduce_scatter.blocks, std::max(n, 2 * (core(n) - 1) + 1)) << n;
    }
  }
}

TEST(Cost, OfRingBroadcastStaysBelowTwiceTheData) {
  for (int n = 2; n <= 33; ++n) {
    const Cost cost = measure(Op::broadcast, "ring", n);
    EXPECT_LE(cost.rounds, log2_down(n) + n - 1) << n;
    EXPECT_LE(cost.blocks, 2 * (n - 1)) << n;
  }
}

TEST(Cost, IsStatedForEveryRow) {
  const int special = 3;  // halving twice, ring broadcast: tests of their own
  EXPECT_EQ(kCosts.size() + special, kMessageAlgorithms.size());
}

}  // namespace
}  // namespace tutti
