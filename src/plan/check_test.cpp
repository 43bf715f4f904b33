// Canaries: broken plans that the checker has to refuse. A checker that accepts everything would
// pass every other test.
#include "plan/check.hpp"

#include "plan/doubling.hpp"
#include "plan/ring.hpp"
#include "plan/steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using step::block;
using step::whole;
using testing::HasSubstr;

Plan rounds(std::vector<std::vector<Step>> all) {
  Plan plan;
  for (std::vector<Step>& steps : all) {
    plan.rounds.push_back({std::move(steps)});
  }
  return plan;
}

std::vector<Plan> plans_of(Op op, std::string_view name, int size, int root = 0) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < size; ++rank) {
    plans.push_back(find_algorithm(op, name)->plan({rank, size}, root));
  }
  return plans;
}

std::string check(Op op, const std::vector<Plan>& plans, int root = 0) {
  return check_plans({.op = op, .algorithm = "canary", .root = root}, plans);
}

// The local steps around a message in most canaries.
const Range kAll2 = whole(Buffer::acc, 2);
const Step kLoad2 = step::load(kAll2);
const Step kFinish2 = step::finish(kAll2, whole(Buffer::out, 2));

TEST(Checker, NamesOperationAlgorithmSizeRankRoundAndStep) {
  std::vector<Plan> plans = plans_of(Op::all_reduce, "ring", 3);
  plans[1].rounds[1].steps[0].blocks.first = 7;
  EXPECT_EQ(check(Op::all_reduce, plans),
            "all_reduce 'canary' at world size 3 (root 0), rank 1, round 1, step 0: names blocks 7 "
            ".. 7 of in, which has 3 blocks here");
}

TEST(Checker, RejectsAMissingContribution) {
  std::vector<Plan> plans = plans_of(Op::reduce_scatter, "ring", 3);
  plans[2].rounds[0].steps[3].kind = Step::Kind::recv;  // drops what rank 2 has
  EXPECT_THAT(check(Op::reduce_scatter, plans), HasSubstr("wanted: block 0 of every rank"));
}

TEST(Checker, RejectsADoubleContribution) {
  // Rank 0 gives its own data twice, rank 1 adds it twice.
  const Plan giver = rounds({{kLoad2, step::send(1, kAll2)},
                             {step::send(1, kAll2)},
                             {step::recv(1, whole(Buffer::out, 2))}});
  const Plan adder = rounds({{kLoad2, step::recv_reduce(0, kAll2)},
                             {step::recv_reduce(0, kAll2)},
                             {kFinish2, step::send(0, whole(Buffer::out, 2))}});
  EXPECT_THAT(check(Op::all_reduce, {giver, adder}),
              HasSubstr("rank 1, round 1, step 0: combines partial 0 of block 0 with"));
  EXPECT_THAT(check(Op::all_reduce, {giver, adder}),
              HasSubstr("the contribution of rank 0 comes in twice"));
}

TEST(Checker, RejectsDifferentTreesOnDifferentRanks) {
  // A hypercube whose places do not follow the ranks: 0-3 and 1-2, then 0-1 and 2-3.
  const std::vector<std::vector<int>> peers{{3, 1}, {2, 0}, {1, 3}, {0, 2}};
  const Range all = whole(Buffer::acc, 4);
  std::vector<Plan> plans;
  for (const std::vector<int>& mine : peers) {
    plans.push_back(
        rounds({{step::load(all), step::send(mine[0], all), step::recv_reduce(mine[0], all)},
                {step::send(mine[1], all), step::recv_reduce(mine[1], all)},
                {step::finish(all, whole(Buffer::out, 4))}}));
  }
  EXPECT_THAT(
      check(Op::all_reduce, plans),
      HasSubstr("out block 0 = finished ((1+2)+(0+3)) of block 0; wanted: the tree that the "
                "ranks before have: finished ((0+3)+(1+2)) of block 0"));
}

TEST(Checker, RejectsAnotherOrderThanThatOfRanksWhereItIsPromised) {
  const std::vector<Plan> plans = plans_of(Op::all_reduce, "ring", 3);
  const PlanCase what{.op = Op::all_reduce, .algorithm = "ring", .sum = Sum::rank_order};
  EXPECT_THAT(check_plans(what, plans), HasSubstr("wanted: rank order: finished ((0+1)+2)"));
}

TEST(Checker, RejectsADeadlockUnderRendezvous) {
  // Both send before they receive; with a buffering transport it would happen to work.
  std::vector<Plan> plans;
  for (int rank = 0; rank < 2; ++rank) {
    const Step copy = step::copy(block(Buffer::in, 0), block(Buffer::out, rank));
    plans.push_back(rounds({{copy, step::send(1 - rank, block(Buffer::out, rank))},
                            {step::recv(1 - rank, block(Buffer::out, 1 - rank))}}));
  }
  EXPECT_THAT(check(Op::all_gather, plans),
              HasSubstr("rank 0, round 0, step 1: waits for ever to send to rank 1: deadlock"));
}

TEST(Checker, RejectsASendThatNobodyReceives) {
  std::vector<Plan> plans = plans_of(Op::all_gather, "ring", 3);
  plans[2].rounds.push_back({{step::send(0, block(Buffer::out, 0))}});
  EXPECT_THAT(check(Op::all_gather, plans), HasSubstr("rank 2, round 3, step 0: waits for ever"));
}

TEST(Checker, RejectsMessagesOfDifferentLength) {
  std::vector<Plan> plans = plans_of(Op::broadcast, "binomial", 2);
  plans[1].rounds[0].steps[0].blocks.count = 1;
  EXPECT_THAT(check(Op::broadcast, plans), HasSubstr("receives 1 blocks where rank 0 sends 2"));
}

TEST(Checker, RejectsBlocksThatCanHaveDifferentSizes) {
  // What rank 1 holds are contributions to block 1; with uneven blocks, block 2 has another size.
  std::vector<Plan> plans = plans_of(Op::reduce_scatter, "pairwise", 3);
  plans[0].rounds[0].steps[0].blocks.first = 2;
  EXPECT_THAT(check(Op::reduce_scatter, plans),
              HasSubstr("rank 1, round 0, step 1: receives block 2 of rank 0 into hold block 0, "
                        "which can have another size"));
}

TEST(Checker, RejectsAWriteIntoABlockThatIsBeingSent) {
  std::vector<Plan> plans = plans_of(Op::all_gather, "ring", 3);
  plans[0].rounds[1].steps[1].blocks = plans[0].rounds[1].steps[0].blocks;
  EXPECT_THAT(check(Op::all_gather, plans),
              HasSubstr("rank 0, round 1, step 1: writes out block 0, or memory it may share, "
                        "while step 0"));
}

TEST(Checker, RejectsTwoReductionsIntoOneBlockAtATime) {
  const Range all = whole(Buffer::acc, 3);
  const Plan leaf = rounds({{step::load(all), step::send(0, all)}});
  const Plan root = rounds({{step::load(all), step::recv_reduce(1, all), step::recv_reduce(2, all)},
                            {step::finish(all, whole(Buffer::out, 3))}});
  EXPECT_THAT(check(Op::reduce, {root, leaf, leaf}),
              HasSubstr("rank 0, round 0, step 2: writes acc block 0"));
}

TEST(Checker, RejectsAReceiveOverMemoryThatIsSentInPlace) {
  // in and out of an all_reduce may be the same tensor.
  const Plan plan =
      rounds({{step::send(1, block(Buffer::in, 1)), step::recv(1, block(Buffer::out, 1))}});
  EXPECT_THAT(check(Op::all_reduce, {plan, Plan{}}),
              HasSubstr("step 1: writes in block 1, or memory it may share, while step 0"));
}

TEST(Checker, RejectsReadingTheInputAfterItsAliasWasWritten) {
  const Plan plan = rounds({{step::load(block(Buffer::acc, 0)),
                             step::finish(block(Buffer::acc, 0), block(Buffer::out, 0)),
                             step::copy(block(Buffer::in, 0), block(Buffer::out, 0))}});
  EXPECT_THAT(check(Op::all_reduce, {plan}),
              HasSubstr("step 2: reads in block 0, which may share the memory of a block written"));
}

TEST(Checker, RejectsReadingWhatWasNeverWritten) {
  std::vector<Plan> plans = plans_of(Op::all_gather, "ring", 2);
  plans[0].rounds.erase(plans[0].rounds.begin());
  EXPECT_THAT(check(Op::all_gather, plans),
              HasSubstr("rank 0, round 0, step 0: reads out block 0, which was never written"));
}

TEST(Checker, RejectsWritingAnInput) {
  std::vector<Plan> plans = plans_of(Op::all_to_all, "pairwise", 2);
  plans[0].rounds[1].steps[1].blocks.buffer = Buffer::in;
  EXPECT_THAT(check(Op::all_to_all, plans), HasSubstr("step 1: writes the input"));
  plans = plans_of(Op::broadcast, "binomial", 2);
  plans[0].rounds.push_back({{step::recv(1, whole(Buffer::out, 2))}});
  plans[1].rounds.push_back({{step::send(0, whole(Buffer::out, 2))}});
  EXPECT_THAT(check(Op::broadcast, plans), HasSubstr("writes the root's data"));
}

TEST(Checker, RejectsWritingOutputThatARankDoesNotHave) {
  std::vector<Plan> plans = plans_of(Op::reduce, "binomial", 2);
  plans[1].rounds.push_back({{kFinish2}});
  EXPECT_THAT(check(Op::reduce, plans), HasSubstr("of out, which has 0 blocks here"));
}

TEST(Checker, RejectsLoadingAndFinishingOtherThanOnce) {
  const Step load = step::load(block(Buffer::acc, 0));
  const Step finish = step::finish(block(Buffer::acc, 0), block(Buffer::out, 0));
  EXPECT_EQ(check(Op::all_reduce, {rounds({{load, finish}})}), "");
  EXPECT_THAT(check(Op::all_reduce, {rounds({{load, load, finish}})}),
              HasSubstr("step 1: reads in block 0, which may share"));
  EXPECT_THAT(check(Op::all_reduce, {rounds({{load, finish, finish}})}),
              HasSubstr("step 2: reads acc block 0, which may share"));
  const Step raw = step::copy(block(Buffer::in, 0), block(Buffer::out, 0));
  EXPECT_THAT(check(Op::all_reduce, {rounds({{raw}})}), HasSubstr("reduced and finished"));
  const Step skip = step::copy(block(Buffer::in, 0), block(Buffer::acc, 0));
  EXPECT_THAT(check(Op::all_reduce, {rounds({{skip}})}), HasSubstr("which has another dtype"));
}

TEST(Checker, RejectsPartialSumsWhereInputsBelong) {
  std::vector<Plan> plans = plans_of(Op::all_reduce, "recursive_doubling", 2);
  plans[0].rounds[1].steps[0] = kLoad2;
  plans[0].rounds[1].steps[1] = step::send(1, kAll2);
  plans[1].rounds[1].steps[1] = step::recv(0, whole(Buffer::out, 2));
  EXPECT_NE(check(Op::all_reduce, plans), "");
}

TEST(Checker, RejectsABarrierThatLeavesTooEarly) {
  std::vector<Plan> plans = plans_of(Op::barrier, "dissemination", 3);
  for (Plan& plan : plans) {
    plan.rounds.pop_back();
  }
  EXPECT_THAT(check(Op::barrier, plans),
              HasSubstr("rank 0, at the end: leaves without knowing that rank 1 has entered"));
}

TEST(Checker, RejectsPeersThatAreNoOtherRank) {
  for (const int peer : {-1, 0, 2}) {
    const Plan plan = rounds({{step::send(peer, block(Buffer::in, 0))}});
    EXPECT_THAT(check(Op::all_gather, {plan, Plan{}}), HasSubstr("which is no other rank"));
  }
}

TEST(Checker, RejectsALocalStepAfterOneInFlight) {
  std::vector<Plan> plans = plans_of(Op::scatter, "linear", 2);
  std::swap(plans[0].rounds[0].steps[0], plans[0].rounds[0].steps[1]);
  EXPECT_THAT(check(Op::scatter, plans), HasSubstr("local steps come first"));
}

TEST(Checker, TakesADefinitionFromItsUser) {
  // An all_gather that lays the blocks out backwards.
  const Definition backwards = [](Op, Seat me, int) {
    std::vector<Content> contents;
    for (int block = 0; block < me.size; ++block) {
      contents.push_back({Content::Kind::input, me.size - 1 - block, 0});
    }
    return contents;
  };
  const PlanCase what{.op = Op::all_gather, .algorithm = "ring"};
  const std::vector<Plan> plans = plans_of(Op::all_gather, "ring", 3);
  EXPECT_EQ(check_plans(what, plans), "");
  EXPECT_THAT(check_plans(what, plans, backwards),
              HasSubstr("out block 0 = block 0 of rank 0; wanted: block 0 of rank 2"));
  const Definition nothing = [](Op, Seat me, int) {
    return std::vector<Content>(static_cast<std::size_t>(me.size), {Content::Kind::untouched});
  };
  EXPECT_THAT(check_plans(what, plans, nothing), HasSubstr("wanted: untouched"));
  EXPECT_EQ(check_plans(what, std::vector<Plan>(3), nothing), "");
}

/// Every step of every plan is needed: without it the checker objects.
class EveryStep : public testing::TestWithParam<int> {};

TEST_P(EveryStep, IsMissedWhenDropped) {
  const int size = GetParam();
  for (const Algorithm& row : kMessageAlgorithms) {
    const PlanCase what{.op = row.op, .algorithm = row.name, .root = 1, .sum = row.sum};
    const std::vector<Plan> good = plans_of(row.op, row.name, size, what.root);
    ASSERT_EQ(check_plans(what, good), "");
    for (std::size_t rank = 0; rank < good.size(); ++rank) {
      for (std::size_t round = 0; round < good[rank].rounds.size(); ++round) {
        for (std::size_t i = 0; i < good[rank].rounds[round].steps.size(); ++i) {
          std::vector<Plan> broken = good;
          std::vector<Step>& steps = broken[rank].rounds[round].steps;
          steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
          EXPECT_NE(check_plans(what, broken), "")
              << spec(row.op).name << " " << row.name << " rank " << rank << " round " << round
              << " step " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WorldSize, EveryStep, testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace tutti
