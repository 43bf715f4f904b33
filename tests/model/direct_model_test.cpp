// The direct plans of 2 and 3 ranks in every order in which their accesses to shared memory can
// happen; and that the model finds what is wrong with a plan that lacks something.
#include "model/direct_model.hpp"

#include "model/explore.hpp"
#include "plan/spec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::model {
namespace {

using Kind = DirectStep::Kind;

constexpr std::uint32_t kShortlyBeforeTheEnd = 0xfffffffb;

Outcome run(int ranks, const std::vector<ModelCall>& calls, const Rules& rules = {}) {
  const Program program(ranks, calls, rules);
  return explore(DirectModel(program, kShortlyBeforeTheEnd));
}

/// `op` through a ring that just holds the segments in flight.
ModelCall staged(Op op, std::uint32_t segments, int lookahead = 0, int root = 0) {
  return {.op = op,
          .protocol = Protocol::staged,
          .root = root,
          .segments = segments,
          .slot_units = lookahead == 0 ? 3U : 2U,
          .lookahead = lookahead};
}

std::vector<Op> ops_of(Protocol protocol) {
  std::vector<Op> ops;
  for (const Spec& row : kSpecs) {
    if (has_direct_plan(row.op, protocol)) {
      ops.push_back(row.op);
    }
  }
  return ops;
}

TEST(DirectModel, StagedPlansHoldInEveryOrder) {
  for (const int ranks : {2, 3}) {
    for (const Op op : ops_of(Protocol::staged)) {
      for (const int lookahead : {0, 1}) {
        const Outcome outcome = run(ranks, {staged(op, 4, lookahead), staged(op, 3, lookahead, 1)});
        EXPECT_EQ(outcome.violation, "")
            << spec(op).name << ", " << ranks << " ranks, lookahead " << lookahead;
      }
    }
  }
}

TEST(DirectModel, StagedPlansFollowEachOtherInEveryOrder) {
  for (const Op first : ops_of(Protocol::staged)) {
    for (const Op second : ops_of(Protocol::staged)) {
      const Outcome outcome = run(3, {staged(first, 2), staged(second, 3, 0, 1)});
      EXPECT_EQ(outcome.violation, "") << spec(first).name << ", " << spec(second).name;
    }
  }
}

TEST(DirectModel, TheRingMayBeDividedAnew) {
  for (const Op first : ops_of(Protocol::staged)) {
    for (const Op second : ops_of(Protocol::staged)) {
      const Outcome outcome = run(2, {staged(first, 3), staged(second, 3, 1), staged(first, 2)});
      EXPECT_EQ(outcome.violation, "") << spec(first).name << ", " << spec(second).name;
    }
  }
}

TEST(DirectModel, CallSlotsAreReusedInEveryOrder) {
  for (const int ranks : {2, 3}) {
    for (const Op op : ops_of(Protocol::inlined)) {
      std::vector<ModelCall> calls;
      for (int i = 0; i < 10; ++i) {
        calls.push_back({.op = op, .root = i % 3 == 2 ? 1 : 0});
      }
      EXPECT_EQ(run(ranks, calls).violation, "") << spec(op).name << ", " << ranks << " ranks";
    }
  }
}

TEST(DirectModel, TheLastToArriveWorksForAllInEveryOrder) {
  const std::vector<ModelCall> calls(7, {.op = Op::all_reduce, .protocol = Protocol::arrival});
  EXPECT_EQ(run(2, calls).violation, "");
  EXPECT_EQ(run(3, calls).violation, "");
}

TEST(DirectModel, ProtocolsMayAlternateInEveryOrder) {
  const ModelCall arrival{.op = Op::all_reduce, .protocol = Protocol::arrival};
  const ModelCall broadcast{.op = Op::broadcast, .root = 1};
  const ModelCall barrier{.op = Op::barrier};
  const Outcome outcome = run(3, {broadcast, staged(Op::gather, 2), arrival, broadcast,
                                  staged(Op::all_reduce, 2, 1), arrival, barrier, broadcast});
  EXPECT_EQ(outcome.violation, "");
}

// What follows is broken, and must be found.

void remove(DirectPlan& plan, Kind kind) {
  std::erase_if(plan.steps, [kind](const DirectStep& step) { return step.kind == kind; });
}

DirectStep* find(DirectPlan& plan, Kind kind, int post) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const DirectStep& step) { return step.kind == kind && step.post == post; });
  return found == plan.steps.end() ? nullptr : &*found;
}

std::string found_in(const std::vector<ModelCall>& calls, const Rules& rules, int ranks = 3) {
  EXPECT_EQ(run(ranks, calls).violation, "") << "without the fault";
  return run(ranks, calls, rules).violation;
}

TEST(DirectModelFinds, AMissingWait) {
  const Rules rules{.change_plan = [](DirectPlan& plan) { remove(plan, Kind::wait); }};
  for (const ModelCall& call :
       {staged(Op::all_reduce, 2), staged(Op::reduce_scatter, 2, 1), ModelCall{Op::all_reduce}}) {
    EXPECT_NE(found_in({call}, rules), "");
  }
  EXPECT_NE(found_in({{Op::barrier}}, rules), "");
}

TEST(DirectModelFinds, AWaitForThePostBefore) {
  const Rules rules{.change_plan = [](DirectPlan& plan) {
    for (DirectStep& step : plan.steps) {
      if (step.kind == Kind::wait || step.kind == Kind::fetch) {
        --step.post;
      }
    }
  }};
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::broadcast, Op::reduce_scatter}) {
    EXPECT_NE(found_in({staged(op, 2)}, rules), "") << spec(op).name;
  }
}

TEST(DirectModelFinds, AWaitForTheSegmentBefore) {
  const Rules rules{.change_plan = [](DirectPlan& plan) {
    if (DirectStep* fetch = find(plan, Kind::fetch, 2)) {
      --fetch->posted_lag;
    }
  }};
  EXPECT_NE(found_in({staged(Op::all_reduce, 3, 1)}, rules), "");
}

TEST(DirectModelFinds, AWaitForWhatNobodyPosts) {
  const Rules rules{.change_plan = [](DirectPlan& plan) {
    if (plan.posts == 2) {
      std::erase_if(plan.steps, [](const DirectStep& step) {
        return step.kind == Kind::publish && step.post == 1;
      });
    }
  }};
  EXPECT_EQ(found_in({staged(Op::all_reduce, 2)}, rules), "deadlock");
}

TEST(DirectModelFinds, APostBeforeTheCopy) {
  const Rules rules{.change_plan = [](DirectPlan& plan) {
    DirectStep* copy = find(plan, Kind::copy_in, 0);
    DirectStep* post = find(plan, Kind::publish, 1);
    if (copy != nullptr && post != nullptr) {
      std::swap(*copy, *post);
    }
  }};
  for (const Op op : ops_of(Protocol::staged)) {
    EXPECT_NE(found_in({staged(op, 2)}, rules, 2), "") << spec(op).name;
  }
}

// Where every rank waits for every other one in each segment, these waits may prove as much.
TEST(DirectModelFinds, ASlotReusedWithoutWaiting) {
  const Rules rules{.change_plan = [](DirectPlan& plan) { remove(plan, Kind::reuse); }};
  for (const Op op : {Op::broadcast, Op::scatter, Op::gather, Op::reduce, Op::all_gather,
                      Op::reduce_scatter, Op::all_to_all}) {
    EXPECT_NE(found_in({staged(op, 5, 1)}, rules, 2), "") << spec(op).name;
  }
}

TEST(DirectModelFinds, ASlotReusedOnePostTooEarly) {
  for (const Op op : {Op::broadcast, Op::scatter, Op::gather, Op::all_gather, Op::reduce_scatter,
                      Op::all_to_all}) {
    EXPECT_NE(found_in({staged(op, 5, 1)}, {.left_early = 1}, 2), "") << spec(op).name;
  }
}

TEST(DirectModelFinds, ASlotWhoseEarlierReadersAreForgotten) {
  EXPECT_NE(found_in({staged(Op::broadcast, 2), staged(Op::gather, 2, 0, 1)},
                     {.remembers_reader = false}),
            "");
}

TEST(DirectModelFinds, ARingDividedAnewWhileItIsRead) {
  EXPECT_NE(found_in({staged(Op::broadcast, 2), staged(Op::broadcast, 2, 1)},
                     {.redivision_frees = false}),
            "");
}

TEST(DirectModelFinds, ACallSlotReusedOneCallTooEarly) {
  const std::vector<ModelCall> broadcasts(10, {.op = Op::broadcast});
  EXPECT_NE(found_in(broadcasts, {.calls_apart = kCallSlots + 1}), "");
}

TEST(DirectModelFinds, AProofOfTheCallBeforeThatIsNone) {
  const Rules rules{.change_plan = [](DirectPlan& plan) { plan.symmetric = true; }};
  const std::vector<ModelCall> broadcasts(10, {.op = Op::broadcast});
  EXPECT_NE(found_in(broadcasts, rules), "");
}

}  // namespace
}  // namespace tutti::model
