// Two-level plans, proved by the checker over random placements of ranks on hosts.
#include "plan/hierarchy.hpp"

#include "base/rng.hpp"
#include "plan/check.hpp"
#include "plan/select.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

std::string check(Op op, int root, const Topology& topology, ChooseAlgorithm choose) {
  const int size = static_cast<int>(topology.host_of_rank.size());
  std::vector<Plan> plans;
  for (int rank = 0; rank < size; ++rank) {
    const Seat me{rank, size};
    plans.push_back(flatten(two_level_stages(op, me, root, topology), me, choose));
  }
  const std::string name = fmt::format("two_level {}", fmt::join(topology.host_of_rank, ","));
  return check_plans({.op = op, .algorithm = name, .root = root}, plans);
}

void expect_sound(const Topology& topology, int root) {
  if (!suits_two_level(topology)) {
    return;
  }
  for (const Spec& row : kSpecs) {
    if (has_two_level_plan(row.op)) {
      const int rooted = row.rooted() ? root : 0;
      EXPECT_EQ(check(row.op, rooted, topology, low_latency_algorithm), "");
      EXPECT_EQ(check(row.op, rooted, topology, high_bandwidth_algorithm), "");
    }
  }
}

int below(Rng& rng, int bound) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(bound)));
}

TEST(TwoLevel, IsSoundForRanksPlacedAtRandom) {
  Rng rng(20250714);
  for (int trial = 0; trial < 150; ++trial) {
    Topology topology{std::vector<int>(static_cast<std::size_t>(2 + below(rng, 23)))};
    const int hosts = 1 + below(rng, 6);
    for (int& host : topology.host_of_rank) {
      host = 10 * below(rng, hosts);
    }
    if (below(rng, 2) == 0) {  // else interleaved
      std::sort(topology.host_of_rank.begin(), topology.host_of_rank.end(), std::greater<>());
    }
    expect_sound(topology, below(rng, static_cast<int>(topology.host_of_rank.size())));
  }
}

TEST(TwoLevel, IsSoundForEveryPlacementOfFourRanksAndEveryRoot) {
  for (int placement = 0; placement < 4 * 4 * 4 * 4; ++placement) {
    const Topology topology{{placement % 4, placement / 4 % 4, placement / 16 % 4, placement / 64}};
    for (int root = 0; root < 4; ++root) {
      expect_sound(topology, root);
    }
  }
}

TEST(TwoLevel, SuitsOnlySeveralHostsOfWhichOneHasSeveralRanks) {
  EXPECT_FALSE(suits_two_level({{0}}));
  EXPECT_FALSE(suits_two_level({{7, 7, 7}}));
  EXPECT_FALSE(suits_two_level({{2, 1, 0}}));
  EXPECT_TRUE(suits_two_level({{5, 5, 0}}));
  EXPECT_TRUE(suits_two_level({{5, 0, 5}}));
}

TEST(TwoLevel, CanBeForcedAndIsChosenForTheSameOperations) {
  for (const Spec& row : kSpecs) {
    const SelectionFacts facts{
        .op = row.op, .block_bytes = 4, .ranks = 4, .one_host = false, .two_level = true};
    const bool has = has_two_level_plan(row.op);
    EXPECT_EQ(is_selectable(row.op, "two_level"), has) << row.name;
    if (!row.point_to_point()) {
      EXPECT_EQ(name(select(facts, {})) == "two_level", has) << row.name;
    }
  }
  EXPECT_EQ(selectable_names(Op::reduce),
            "direct_inlined, direct_staged, two_level, binomial, ring, pairwise");
}

TEST(TwoLevel, LetsOnlyLeadersTalkAcrossHosts) {
  const Topology topology{{0, 1, 0, 1, 1, 2}};
  const std::vector<Stage> leader = two_level_stages(Op::all_reduce, {1, 6}, 0, topology);
  ASSERT_EQ(leader.size(), 3U);
  EXPECT_EQ(leader[0].members, (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(leader[0].op, Op::reduce);
  EXPECT_EQ(leader[0].to, Buffer::acc);
  EXPECT_EQ(leader[1].kind, Stage::Kind::across);
  EXPECT_EQ(leader[1].members, (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(leader[1].from, Buffer::acc);
  EXPECT_EQ(leader[2].op, Op::broadcast);
  const std::vector<Stage> other = two_level_stages(Op::all_reduce, {4, 6}, 0, topology);
  ASSERT_EQ(other.size(), 2U);
  EXPECT_EQ(other[0].members, leader[0].members);
  EXPECT_EQ(other[0].root, 0);
}

TEST(TwoLevel, MakesTheRootTheLeaderOfItsHost) {
  const Topology topology{{0, 1, 0, 1, 1}};
  const std::vector<Stage> root = two_level_stages(Op::reduce, {4, 5}, 4, topology);
  ASSERT_EQ(root.size(), 2U);
  EXPECT_EQ(root[0].root, 2);
  EXPECT_EQ(root[1].members, (std::vector<int>{0, 4}));
  EXPECT_EQ(root[1].root, 1);
}

}  // namespace
}  // namespace tutti
