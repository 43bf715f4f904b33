// The Spec table's values; its structure is checked by the static_asserts beside it.
#include "plan/spec.hpp"

#include "plan/plan.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tutti {
namespace {

TEST(Spec, GivesBusBandwidthFactors) {
  EXPECT_DOUBLE_EQ(spec(Op::all_reduce).bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(spec(Op::all_gather).bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(spec(Op::reduce_scatter).bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(spec(Op::all_to_all).bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(spec(Op::gather).bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(spec(Op::scatter).bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(spec(Op::broadcast).bus_factor(4), 1.0);
  EXPECT_DOUBLE_EQ(spec(Op::reduce).bus_factor(4), 1.0);
  EXPECT_DOUBLE_EQ(spec(Op::send).bus_factor(4), 1.0);
  EXPECT_DOUBLE_EQ(spec(Op::all_reduce).bus_factor(1), 0.0);
}

TEST(Spec, KnowsRootedOperationsFromTheirSides) {
  const std::set<Op> rooted{Op::reduce, Op::broadcast, Op::scatter, Op::gather};
  for (const Spec& row : kSpecs) {
    EXPECT_EQ(row.rooted(), rooted.contains(row.op)) << row.name;
  }
}

TEST(Spec, CountsSharesPerRank) {
  EXPECT_EQ(spec(Op::gather).out.shares(2, 2, 5), 5);
  EXPECT_EQ(spec(Op::gather).out.shares(1, 2, 5), 0);
  EXPECT_EQ(spec(Op::gather).in.shares(1, 2, 5), 1);
  EXPECT_EQ(spec(Op::barrier).in.shares(0, 0, 5), 0);
  EXPECT_EQ(spec(Op::all_to_all).in.shares(3, 0, 5), 5);
}

TEST(Spec, CutsTheDataOfPlansWhereOneBlockIsShared) {
  EXPECT_EQ(plan_in_blocks(Op::all_reduce, 1, 0, 4), 4);
  EXPECT_EQ(plan_out_blocks(Op::reduce, 1, 0, 4), 0);
  EXPECT_EQ(plan_out_blocks(Op::reduce, 0, 0, 4), 4);
  EXPECT_EQ(plan_out_blocks(Op::broadcast, 3, 0, 4), 4);
  EXPECT_EQ(plan_in_blocks(Op::all_gather, 3, 0, 4), 1);
  EXPECT_EQ(plan_out_blocks(Op::reduce_scatter, 3, 0, 4), 1);
}

TEST(Seat, CountsModuloTheWorldSize) {
  constexpr Seat kSeat{1, 4};
  EXPECT_EQ(kSeat.next(), 2);
  EXPECT_EQ(kSeat.prev(), 0);
  EXPECT_EQ(kSeat.at(-2), 3);
  EXPECT_EQ(kSeat.at(7), 0);
  EXPECT_EQ(kSeat.distance_to(0), 3);
  EXPECT_TRUE(kSeat.has(3));
  EXPECT_FALSE(kSeat.has(4));
}

TEST(PlanThen, KeepsTheOrderOfRounds) {
  Plan first;
  first.rounds.resize(2);
  Plan second;
  second.rounds.push_back({{Step{.peer = 7}}});
  const Plan both = then(first, second);
  ASSERT_EQ(both.rounds.size(), 3U);
  EXPECT_EQ(both.rounds[2].steps[0].peer, 7);
}

}  // namespace
}  // namespace tutti
