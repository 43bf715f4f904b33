// What ends a message early, and what goes beside messages: cancellation in every phase, forgotten
// groups, faults and probes, peers that die or leave, waking of sleepers.
#include "base/limits.hpp"
#include "transport/sim_world.hpp"
#include "transport/test_ops.hpp"
#include "transport/transport.hpp"

#include <tutti/options.hpp>

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

TEST(Transport, CancelledReceiveLeavesTheMessageToTheNext) {
  SimWorld world(2);
  In cancelled(0, {}, kSmallBytes);
  In next(0, {}, kSmallBytes);
  Out out(1, {}, kSmallBytes);
  world[1].recv(cancelled.op);
  world[1].cancel(cancelled.op);
  EXPECT_EQ(cancelled.state(), TransferState::idle);
  world[0].send(out.op);
  world[1].recv(next.op);
  EXPECT_TRUE(world.run_until([&] { return next.done(); }));
}

TEST(Transport, ReceiveCancelledHalfwayTakesItsMessageAlong) {
  for (const std::size_t bytes : {limits::kEagerBytes, kLargeBytes}) {
    SimWorld world(2, {.window_bytes = 4096});
    auto in = std::make_unique<In>(0, MessageKey{}, bytes);
    Out out(1, {}, bytes);
    Out following(1, {}, kSmallBytes, 8);
    In next(0, {}, kSmallBytes);
    world[1].recv(in->op);
    world[0].send(out.op);
    world[0].send(following.op);
    for (int i = 0; i < (bytes == kLargeBytes ? 12 : 3); ++i) {
      world[0].poll();
      world[1].poll();
      world.network().advance();
    }
    ASSERT_EQ(in->state(), TransferState::active);
    world[1].cancel(in->op);
    in.reset();  // its bytes are gone
    world[1].recv(next.op);
    EXPECT_TRUE(world.run_until([&] { return next.done(); }));
    EXPECT_EQ(next.data, following.data);
    world.run_to_end();
    EXPECT_EQ(out.state(), TransferState::done);
  }
}

TEST(Transport, CancelledAnnouncedSendDisappears) {
  SimWorld world(2);
  auto out = std::make_unique<Out>(1, MessageKey{}, kLargeBytes, 1);
  Out next(1, {}, kLargeBytes, 2);
  world[0].send(out->op);
  world.run_to_end();
  world[0].cancel(out->op);
  EXPECT_EQ(out->state(), TransferState::idle);
  out.reset();
  world[0].send(next.op);
  In in(0, {}, kLargeBytes);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
  EXPECT_EQ(in.data, next.data);
}

TEST(Transport, SendCancelledHalfwayLetsItsReceiveWaitOn) {
  for (const int source : {0, kAnySource}) {
    SimWorld world(2, {.window_bytes = 4096});
    auto out = std::make_unique<Out>(1, MessageKey{}, kLargeBytes, 1);
    In in(source, {}, kLargeBytes);
    world[0].send(out->op);
    world[1].recv(in.op);
    ASSERT_TRUE(world.run_until([&] { return out->op.moved != 0; }));
    world[0].cancel(out->op);
    out.reset();
    world.run_to_end();
    EXPECT_EQ(in.state(), TransferState::active);
    Out next(1, {}, kLargeBytes, 2);
    world[0].send(next.op);
    EXPECT_TRUE(world.run_until([&] { return in.done(); }));
    EXPECT_EQ(in.data, next.data);
    EXPECT_EQ(in.op.source, 0);
  }
}

TEST(Transport, WithdrawnMessageGivesItsReceiveToOneThatWaits) {
  for (const int source : {1, kAnySource}) {
    SimWorld world(3, {.window_bytes = 4096});
    auto first = std::make_unique<Out>(0, MessageKey{}, kLargeBytes, 1);
    In in(source, {}, kLargeBytes);
    world[1].send(first->op);
    world[0].recv(in.op);
    ASSERT_TRUE(world.run_until([&] { return first->op.moved != 0; }));
    const int other = source == 1 ? 1 : 2;
    Out waits(0, {}, kLargeBytes, 2);
    world[other].send(waits.op);
    for (int i = 0; i < 10; ++i) {
      world[other].poll();
      world[0].poll();
      world.network().advance();
    }
    world[1].cancel(first->op);
    first.reset();
    ASSERT_TRUE(world.run_until([&] { return in.done(); }));
    EXPECT_EQ(in.op.source, other);
    EXPECT_EQ(in.data, waits.data);
  }
}

TEST(Transport, SendCancelledInTheLinkIsDeliveredFromACopy) {
  SimWorld world(2, {.window_bytes = 4096});
  auto out = std::make_unique<Out>(1, MessageKey{}, limits::kEagerBytes, 6);
  world[0].send(out->op);
  ASSERT_EQ(out->state(), TransferState::active);  // the window holds only a part
  world[0].cancel(out->op);
  out.reset();
  In in(0, {}, limits::kEagerBytes);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
  EXPECT_EQ(in.data, pattern(limits::kEagerBytes, 6));
}

TEST(Transport, ForgottenGroupGivesCreditBackAndLetsItsSendersGo) {
  SimWorld world(2);
  std::deque<Out> outs;
  for (unsigned i = 0; i < 100; ++i) {
    outs.emplace_back(1, MessageKey{.group = 5, .tag = i}, limits::kEagerBytes, i);
    world[0].send(outs.back().op);
  }
  Out kept(1, {.group = 6}, kSmallBytes, 3);
  world[0].send(kept.op);
  world.run_to_end();
  EXPECT_EQ(outs.back().state(), TransferState::active);
  world[1].forget_group(5);
  world.run_to_end();
  EXPECT_EQ(outs.back().state(), TransferState::done);
  Out again(1, {.group = 7}, limits::kEagerBytes);
  world[0].send(again.op);
  world.run_to_end();
  EXPECT_EQ(again.state(), TransferState::done) << "the credit did not come back";
  In in(0, {.group = 6}, kSmallBytes);
  world[1].recv(in.op);
  EXPECT_TRUE(in.done());
}

TEST(Transport, FaultsReachTheOtherSideWithKindTextAndPeer) {
  SimWorld world(2, {.window_bytes = 4096});
  Out stuck(1, {}, kLargeBytes);
  In in(0, {}, kLargeBytes);
  world[0].send(stuck.op);
  world[1].recv(in.op);
  world[0].send_fault(1, 42, {.kind = ErrorKind::mismatch, .text = "counts differ", .peer = 3});
  ASSERT_TRUE(world.run_until([&] { return !world.faults().empty(); }));
  EXPECT_EQ(in.state(), TransferState::active) << "a fault does not wait behind payload";
  const auto& fault = world.faults().front();
  EXPECT_EQ(fault.at, 1);
  EXPECT_EQ(fault.from, 0);
  EXPECT_EQ(fault.group, 42U);
  EXPECT_EQ(fault.failure.kind, ErrorKind::mismatch);
  EXPECT_EQ(fault.failure.text, "counts differ");
  EXPECT_EQ(fault.failure.peer, 3);
}

TEST(Transport, FaultsToAStuckPeerAreBoundedAndLongTextsCut) {
  SimWorld world(2, {.window_bytes = 512});
  for (int i = 0; i < 1000; ++i) {
    world[0].send_fault(1, 1, {.text = std::string(limits::kMaxFaultTextBytes * 2, 'x')});
  }
  world.run_to_end();
  EXPECT_GE(world.faults().size(), limits::kMaxQueuedReports);
  EXPECT_LE(world.faults().size(), limits::kMaxQueuedReports + 16);
  EXPECT_EQ(world.faults()[0].failure.text.size(), limits::kMaxFaultTextBytes);
  EXPECT_EQ(world.faults()[0].failure.peer, -1);
}

TEST(Transport, ProbesReachTheOtherSideAndAreBoundedToo) {
  SimWorld world(2, {.window_bytes = 512});
  std::vector<Transport::Probe> probes;
  world[1].set_probe_handler([&](int peer, const Transport::Probe& probe) {
    EXPECT_EQ(peer, 0);
    probes.push_back(probe);
  });
  for (int i = 0; i < 1000; ++i) {
    world[0].send_probe(1, {.call = {.group = 4, .tag = 5}, .stamp = 6, .history = 7});
  }
  world.run_to_end();
  EXPECT_GE(probes.size(), limits::kMaxQueuedReports);
  EXPECT_LE(probes.size(), limits::kMaxQueuedReports + 32);
  EXPECT_EQ(probes[0].call, (MessageKey{.group = 4, .tag = 5}));
  EXPECT_EQ(probes[0].stamp, 6U);
  EXPECT_EQ(probes[0].history, 7U);
}

TEST(Transport, PeerThatCrashesLosesItsTransfersOnly) {
  SimWorld world(3);
  Out arrived(0, {.tag = 1}, kSmallBytes, 1);
  world[1].send(arrived.op);
  world.run_to_end();
  Out to_dead(1, {}, kLargeBytes);
  Out to_living(2, {}, kLargeBytes);
  In from_dead(1, {.tag = 2}, kSmallBytes);
  In from_living(2, {.tag = 2}, kSmallBytes);
  In from_anyone(kAnySource, {.tag = 3}, kSmallBytes);
  world[0].send(to_dead.op);
  world[0].send(to_living.op);
  world[0].recv(from_dead.op);
  world[0].recv(from_living.op);
  world[0].recv(from_anyone.op);
  world.network().crash_at(1, world.network().now() + std::chrono::microseconds(1));
  world.run_to_end();
  EXPECT_EQ(to_dead.state(), TransferState::lost);
  EXPECT_EQ(from_dead.state(), TransferState::lost);
  EXPECT_EQ(to_living.state(), TransferState::active);
  EXPECT_EQ(from_living.state(), TransferState::active);
  EXPECT_EQ(from_anyone.state(), TransferState::active);
  const auto failure = world[0].failure(1);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ErrorKind::peer_lost);
  EXPECT_NE(failure->text.find("sim link"), std::string::npos) << failure->text;
  EXPECT_FALSE(world[0].failure(2).has_value());

  In reads_what_arrived(1, {.tag = 1}, kSmallBytes);
  world[0].recv(reads_what_arrived.op);
  EXPECT_TRUE(reads_what_arrived.done());
  In too_late(1, {.tag = 1}, kSmallBytes);
  world[0].recv(too_late.op);
  EXPECT_EQ(too_late.state(), TransferState::lost);
  Out nowhere(1, {}, 1);
  world[0].send(nowhere.op);
  EXPECT_EQ(nowhere.state(), TransferState::lost);
  for (In* in : {&from_living, &from_anyone}) {
    world[0].cancel(in->op);
  }
  world[0].cancel(to_living.op);
}

TEST(Transport, PeerReportedDeadLosesItsTransfersWithThatReason) {
  SimWorld world(2);
  Out announced(1, {}, kLargeBytes);
  In in(1, {}, kSmallBytes);
  Out last_words(0, {.tag = 8}, kSmallBytes, 8);
  world[1].send(last_words.op);
  world[0].send(announced.op);
  world[0].recv(in.op);
  while (world.network().advance()) {
  }
  world[0].peer_died(1, {.kind = ErrorKind::peer_lost, .text = "process 12 was killed"});
  EXPECT_EQ(announced.state(), TransferState::lost);
  EXPECT_EQ(in.state(), TransferState::lost);
  EXPECT_EQ(world[0].failure(1)->text, "process 12 was killed");
  In late(1, {.tag = 8}, kSmallBytes);
  world[0].recv(late.op);
  EXPECT_TRUE(late.done()) << "what had arrived can be received";
}

TEST(Transport, PeerThatLeavesInGoodOrderIsSaidToHaveLeft) {
  SimWorld world(2);
  Out last(1, {}, kSmallBytes, 2);
  world[0].send(last.op);
  world.destroy(0);
  In in(0, {}, kSmallBytes);
  In never(0, {}, kSmallBytes);
  world[1].recv(in.op);
  world[1].recv(never.op);
  world.run_to_end();
  EXPECT_TRUE(in.done());
  EXPECT_EQ(never.state(), TransferState::lost);
  ASSERT_TRUE(world[1].failure(0).has_value());
  EXPECT_NE(world[1].failure(0)->text.find("left"), std::string::npos);
}

TEST(Transport, WakesThoseThatArmedWhenOthersCompleteTheirOps) {
  SimWorld world(2);
  int wakes = 0;
  world[1].set_wake_callback([&] { ++wakes; });
  In in(0, {}, kSmallBytes);
  Out out(1, {}, kSmallBytes);
  world[1].recv(in.op);
  EXPECT_TRUE(world[1].arm());
  EXPECT_TRUE(world[1].arm()) << "a second sleeper";
  world[0].send(out.op);
  EXPECT_EQ(wakes, 0);
  world.run_to_end();
  EXPECT_EQ(wakes, 1);
  Out early(1, {}, kSmallBytes);
  world[0].send(early.op);
  world.run_to_end();
  EXPECT_TRUE(world[1].arm());
  In late(0, {}, kSmallBytes);
  world[1].recv(late.op);
  EXPECT_EQ(wakes, 1) << "who posts the receive sees it done himself";
}

TEST(Transport, CompletionsThatNobodyArmedForWakeTheNextThatArms) {
  SimWorld world(2);
  int wakes = 0;
  world[1].set_wake_callback([&] { ++wakes; });
  for (int i = 0; i < 3; ++i) {
    In in(0, {}, kSmallBytes);
    Out out(1, {}, kSmallBytes);
    world[1].recv(in.op);
    world[0].send(out.op);
    world.run_to_end();
  }
  EXPECT_EQ(wakes, 0) << "nobody sleeps, so nobody pays";
  EXPECT_FALSE(world[1].arm());
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(world[1].arm());
  EXPECT_EQ(wakes, 1);
}

TEST(Transport, WakesSleepersWhenALinkFillsUpSoThatTheyArmForRoom) {
  SimWorld world(2, {.window_bytes = 4096});
  int wakes = 0;
  world[0].set_wake_callback([&] { ++wakes; });
  Out small(1, {}, kSmallBytes);
  world[0].send(small.op);
  EXPECT_TRUE(world[0].arm());
  EXPECT_EQ(wakes, 0);
  Out fills(1, {}, limits::kEagerBytes);
  world[0].send(fills.op);
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(world[0].arm());
  Out waits(1, {}, kSmallBytes);
  world[0].send(waits.op);
  EXPECT_EQ(wakes, 1) << "they know already";
  world.run_to_end();
  EXPECT_EQ(waits.state(), TransferState::done);
}

TEST(Transport, MessagesSentBeforeTheLinkIsThereWaitForIt) {
  SimNetwork network(1);
  Transport first(0, 2, {});
  Transport second(1, 2, {});
  Out out(1, {}, kSmallBytes);
  In in(0, {}, kSmallBytes);
  first.send(out.op);
  second.recv(in.op);
  EXPECT_EQ(out.state(), TransferState::active);
  auto ends = network.connect({.first = 0, .second = 1});
  first.add_link(1, std::move(ends.first));
  second.add_link(0, std::move(ends.second));
  network.advance();
  second.poll();
  EXPECT_TRUE(in.done());
  EXPECT_EQ(out.state(), TransferState::done);
}

}  // namespace
}  // namespace tutti
