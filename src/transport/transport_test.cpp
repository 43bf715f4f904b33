// Paths of one message through the transport, over simulated links: whole, announced, to oneself,
// cancelled in every phase, refused, lost.
#include "transport/transport.hpp"

#include "base/limits.hpp"
#include "transport/frame.hpp"
#include "transport/sim_world.hpp"

#include <tutti/options.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kSmall = 100;

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xff);
  }
  return data;
}

/// A send or a receive with its bytes.
struct Out {
  Out(int peer, MessageKey key, std::size_t bytes, unsigned seed = 0) : data(pattern(bytes, seed)) {
    op.peer = peer;
    op.key = key;
    op.stamp = 7;
    op.data = data.data();
    op.bytes = bytes;
  }
  TransferState state() const { return op.state.load(std::memory_order_acquire); }
  std::vector<std::byte> data;
  SendOp op;
};
struct In {
  In(int peer, MessageKey key, std::size_t bytes) : data(bytes, std::byte{0xee}) {
    op.peer = peer;
    op.key = key;
    op.stamp = 7;
    op.data = data.data();
    op.bytes = bytes;
  }
  TransferState state() const { return op.state.load(std::memory_order_acquire); }
  bool done() const { return state() == TransferState::done; }
  std::vector<std::byte> data;
  RecvOp op;
};

TEST(Transport, CarriesMessagesOfEverySizeWhicheverSideIsFirst) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, limits::kEagerBytes,
                                  limits::kEagerBytes + 1, limits::kChunkBytes, kLarge + 3}) {
    for (const int first : {0, 1}) {
      SimWorld world(2);
      Out out(1, {.group = 1, .tag = 2}, bytes, 5);
      In in(0, {.group = 1, .tag = 2}, bytes);
      if (first == 0) {
        world[0].send(out.op);
        world.run_to_end();
        world[1].recv(in.op);
      } else {
        world[1].recv(in.op);
        world[0].send(out.op);
      }
      ASSERT_TRUE(world.run_until([&] { return in.done(); })) << bytes;
      EXPECT_EQ(in.data, out.data);
      EXPECT_EQ(in.op.source, 0);
      EXPECT_EQ(in.op.moved, bytes);
      EXPECT_EQ(out.state(), TransferState::done);
      EXPECT_EQ(world[0].pending_sends(), 0U);
    }
  }
}

TEST(Transport, FC_D1_TagsSelectMessages) {
  SimWorld world(2);
  Out one(1, {.group = 1, .tag = 1}, 12, 1);
  Out zero(1, {.group = 1, .tag = 2}, 12, 2);
  In b(0, {.group = 1, .tag = 2}, 12);
  In a(0, {.group = 1, .tag = 1}, 12);
  world[0].send(one.op);
  world[0].send(zero.op);
  world[1].recv(b.op);
  world[1].recv(a.op);
  ASSERT_TRUE(world.run_until([&] { return a.done() && b.done(); }));
  EXPECT_EQ(a.data, one.data);
  EXPECT_EQ(b.data, zero.data);
}

TEST(Transport, FC_D2_ExchangeWithReceiveFirstOverASmallWindow) {
  SimWorld world(4, {.window_bytes = 4096});
  std::deque<Out> outs;
  std::deque<In> ins;
  for (int rank = 0; rank < 4; ++rank) {
    ins.emplace_back((rank + 3) % 4, MessageKey{}, kLarge);
    outs.emplace_back((rank + 1) % 4, MessageKey{}, kLarge, static_cast<unsigned>(rank));
    world[rank].recv(ins.back().op);
    world[rank].send(outs.back().op);
  }
  ASSERT_TRUE(world.run_until(
      [&] { return ins[0].done() && ins[1].done() && ins[2].done() && ins[3].done(); }));
  for (unsigned rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ins[rank].data, outs[(rank + 3) % 4].data);
  }
}

TEST(Transport, FC_D3_ReceiveFromAnyoneTellsWhoItWas) {
  for (const std::size_t bytes : {kSmall, kLarge}) {
    SimWorld world(3);
    Out from1(0, {.tag = 7}, bytes, 1);
    Out from2(0, {.tag = 7}, bytes, 2);
    In a(kAnySource, {.tag = 7}, bytes);
    In b(kAnySource, {.tag = 7}, bytes);
    world[1].send(from1.op);
    world[2].send(from2.op);
    world[0].recv(a.op);
    world.run_to_end();
    world[0].recv(b.op);
    ASSERT_TRUE(world.run_until([&] { return a.done() && b.done(); }));
    EXPECT_EQ((std::set<int>{a.op.source, b.op.source}), (std::set<int>{1, 2}));
    EXPECT_EQ(a.data, a.op.source == 1 ? from1.data : from2.data);
    EXPECT_EQ(b.data, b.op.source == 1 ? from1.data : from2.data);
  }
}

TEST(Transport, ReceivesFromAnyoneTakePeersInTurn) {
  SimWorld world(3);
  std::deque<Out> outs;
  for (unsigned i = 0; i < 6; ++i) {
    outs.emplace_back(0, MessageKey{}, kSmall, i);
    world[i < 3 ? 1 : 2].send(outs.back().op);
  }
  world.run_to_end();
  std::vector<int> sources;
  for (int i = 0; i < 6; ++i) {
    In in(kAnySource, {}, kSmall);
    world[0].recv(in.op);
    ASSERT_TRUE(in.done());
    sources.push_back(in.op.source);
  }
  EXPECT_NE(sources[0], sources[1]);
  EXPECT_NE(sources[2], sources[3]);
  EXPECT_NE(sources[4], sources[5]);
}

TEST(Transport, MessagesOfOneKeyNeverOvertakeWhateverTheirSize) {
  SimWorld world(2, {.short_percent = 30});
  std::deque<Out> outs;
  std::deque<In> ins;
  for (unsigned i = 0; i < 40; ++i) {
    const std::size_t bytes = i % 3 == 0 ? limits::kEagerBytes * 3 : 10 + i;
    outs.emplace_back(1, MessageKey{.group = 3}, bytes, i);
    world[0].send(outs.back().op);
    ins.emplace_back(i % 2 == 0 ? 0 : kAnySource, MessageKey{.group = 3}, bytes);
    world[1].recv(ins.back().op);
  }
  ASSERT_TRUE(world.run_until(
      [&] { return std::all_of(ins.begin(), ins.end(), [](const In& in) { return in.done(); }); }));
  for (std::size_t i = 0; i < ins.size(); ++i) {
    EXPECT_EQ(ins[i].data, outs[i].data) << i;
  }
}

TEST(Transport, ThousandsOutstandingEachWay) {
  constexpr unsigned kMessages = 5000;
  SimWorld world(2);
  std::deque<Out> outs;
  std::deque<In> ins;
  for (unsigned i = 0; i < kMessages; ++i) {
    for (const int rank : {0, 1}) {
      outs.emplace_back(1 - rank, MessageKey{.tag = i}, 500, i);
      world[rank].send(outs.back().op);
    }
  }
  world.run_to_end();  // beyond the credit, so many are announced only
  for (unsigned i = 0; i < kMessages; ++i) {
    for (const int rank : {0, 1}) {
      ins.emplace_back(1 - rank, MessageKey{.tag = kMessages - 1 - i}, 500);
      world[rank].recv(ins.back().op);
    }
  }
  world.run_to_end();
  for (unsigned i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(ins[2 * i].done() && ins[2 * i + 1].done());
    EXPECT_EQ(ins[2 * i].data, pattern(500, kMessages - 1 - i));
  }
}

TEST(Transport, UnreadSmallMessagesAreBoundedByCredit) {
  SimWorld world(2);
  std::deque<Out> outs;
  for (unsigned i = 0; i < 200; ++i) {
    outs.emplace_back(1, MessageKey{.tag = i}, limits::kEagerBytes, i);
    world[0].send(outs.back().op);
  }
  world.run_to_end();
  std::size_t done = 0;
  for (const Out& out : outs) {
    done += out.state() == TransferState::done ? 1 : 0;
  }
  EXPECT_EQ(done, limits::kEagerCreditBytes / (limits::kEagerBytes + limits::kEagerOverheadBytes));
  // A message of another key passes them all.
  Out late(1, {.group = 9}, kSmall, 9);
  In in(0, {.group = 9}, kSmall);
  world[0].send(late.op);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
}

TEST(Transport, OneBlockedMessageDoesNotBlockOthers) {
  SimWorld world(2);
  Out blocked(1, {.tag = 1}, kLarge);
  Out other(1, {.tag = 2}, kLarge, 3);
  In in(0, {.tag = 2}, kLarge);
  world[0].send(blocked.op);
  world[0].send(other.op);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
  EXPECT_EQ(in.data, other.data);
  EXPECT_EQ(blocked.state(), TransferState::active);
  EXPECT_EQ(world[0].pending_sends(), 1U);
  world[0].cancel(blocked.op);
  EXPECT_EQ(world[0].pending_sends(), 0U);
}

TEST(Transport, MismatchIsConsumedAndTheNextMessageIsFine) {
  for (const std::size_t bytes : {kSmall, kLarge}) {
    for (const bool early : {false, true}) {
      SimWorld world(2);
      Out wrong(1, {.tag = 1}, bytes, 1);
      wrong.op.stamp = 99;
      Out right(1, {.tag = 1}, bytes, 2);
      In first(0, {.tag = 1}, bytes);
      In second(0, {.tag = 1}, bytes);
      world[0].send(wrong.op);
      world[0].send(right.op);
      if (early) {
        world.run_to_end();
      }
      world[1].recv(first.op);
      world[1].recv(second.op);
      world.run_to_end();
      EXPECT_EQ(first.state(), TransferState::mismatch);
      EXPECT_EQ(first.op.their_stamp, 99U);
      EXPECT_EQ(first.op.their_bytes, bytes);
      EXPECT_EQ(first.data, std::vector<std::byte>(bytes, std::byte{0xee}));
      EXPECT_EQ(wrong.state(), TransferState::done);
      EXPECT_TRUE(second.done());
      EXPECT_EQ(second.data, right.data);
    }
  }
}

TEST(Transport, SizesThatDifferAreAMismatchAcrossTheEagerLimit) {
  SimWorld world(2);
  Out large(1, {}, kLarge);
  Out small(1, {}, kSmall);
  In expects_small(0, {}, kSmall);
  In expects_large(0, {}, kLarge);
  world[0].send(large.op);
  world[0].send(small.op);
  world[1].recv(expects_small.op);
  world[1].recv(expects_large.op);
  world.run_to_end();
  EXPECT_EQ(expects_small.state(), TransferState::mismatch);
  EXPECT_EQ(expects_small.op.their_bytes, kLarge);
  EXPECT_EQ(expects_large.state(), TransferState::mismatch);
  EXPECT_EQ(expects_large.op.their_bytes, kSmall);
}

TEST(Transport, MessagesToOneselfNeedNoLink) {
  Transport alone(0, 1, {});
  for (const std::size_t bytes : {std::size_t{0}, kSmall, kLarge}) {
    Out out(0, {}, bytes, 4);
    In in(0, {}, bytes);
    alone.send(out.op);
    EXPECT_EQ(out.state() == TransferState::done, bytes <= limits::kEagerBytes);
    alone.recv(in.op);
    EXPECT_TRUE(in.done());
    EXPECT_EQ(out.state(), TransferState::done);
    EXPECT_EQ(in.data, out.data);

    In any(kAnySource, {}, bytes);
    Out again(0, {}, bytes, 5);
    alone.recv(any.op);
    alone.send(again.op);
    EXPECT_TRUE(any.done());
    EXPECT_EQ(any.op.source, 0);
    EXPECT_EQ(any.data, again.data);
  }
  Out wrong(0, {}, kLarge);
  wrong.op.stamp = 1;
  In in(0, {}, kLarge);
  alone.send(wrong.op);
  alone.recv(in.op);
  EXPECT_EQ(in.state(), TransferState::mismatch);
  EXPECT_EQ(wrong.state(), TransferState::done);
}

TEST(Transport, SmallMessagesToOneselfAreBounded) {
  Transport alone(0, 1, {});
  std::deque<Out> outs;
  for (unsigned i = 0; i < 100; ++i) {
    outs.emplace_back(0, MessageKey{}, limits::kEagerBytes, i);
    alone.send(outs.back().op);
  }
  EXPECT_EQ(outs.back().state(), TransferState::active);
  alone.cancel(outs.back().op);
  EXPECT_EQ(outs.back().state(), TransferState::idle);
  for (unsigned i = 0; i < 99; ++i) {
    In in(0, {}, limits::kEagerBytes);
    alone.recv(in.op);
    ASSERT_TRUE(in.done());
    EXPECT_EQ(in.data, outs[i].data);
  }
}

TEST(Transport, CancelledReceiveLeavesTheMessageToTheNext) {
  SimWorld world(2);
  In cancelled(0, {}, kSmall);
  In next(0, {}, kSmall);
  Out out(1, {}, kSmall);
  world[1].recv(cancelled.op);
  world[1].cancel(cancelled.op);
  EXPECT_EQ(cancelled.state(), TransferState::idle);
  world[0].send(out.op);
  world[1].recv(next.op);
  EXPECT_TRUE(world.run_until([&] { return next.done(); }));
}

TEST(Transport, ReceiveCancelledHalfwayTakesItsMessageAlong) {
  for (const std::size_t bytes : {limits::kEagerBytes, kLarge}) {
    SimWorld world(2, {.window_bytes = 4096});
    auto in = std::make_unique<In>(0, MessageKey{}, bytes);
    Out out(1, {}, bytes);
    Out following(1, {}, kSmall, 8);
    In next(0, {}, kSmall);
    world[1].recv(in->op);
    world[0].send(out.op);
    world[0].send(following.op);
    for (int i = 0; i < (bytes == kLarge ? 12 : 3); ++i) {
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
  auto out = std::make_unique<Out>(1, MessageKey{}, kLarge, 1);
  Out next(1, {}, kLarge, 2);
  world[0].send(out->op);
  world.run_to_end();
  world[0].cancel(out->op);
  EXPECT_EQ(out->state(), TransferState::idle);
  out.reset();
  world[0].send(next.op);
  In in(0, {}, kLarge);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
  EXPECT_EQ(in.data, next.data);
}

TEST(Transport, SendCancelledHalfwayLetsItsReceiveWaitOn) {
  for (const int source : {0, kAnySource}) {
    SimWorld world(2, {.window_bytes = 4096});
    auto out = std::make_unique<Out>(1, MessageKey{}, kLarge, 1);
    In in(source, {}, kLarge);
    world[0].send(out->op);
    world[1].recv(in.op);
    ASSERT_TRUE(world.run_until([&] { return out->op.moved != 0; }));
    world[0].cancel(out->op);
    out.reset();
    world.run_to_end();
    EXPECT_EQ(in.state(), TransferState::active);
    Out next(1, {}, kLarge, 2);
    world[0].send(next.op);
    EXPECT_TRUE(world.run_until([&] { return in.done(); }));
    EXPECT_EQ(in.data, next.data);
    EXPECT_EQ(in.op.source, 0);
  }
}

TEST(Transport, WithdrawnMessageGivesItsReceiveToOneThatWaits) {
  for (const int source : {1, kAnySource}) {
    SimWorld world(3, {.window_bytes = 4096});
    auto first = std::make_unique<Out>(0, MessageKey{}, kLarge, 1);
    In in(source, {}, kLarge);
    world[1].send(first->op);
    world[0].recv(in.op);
    ASSERT_TRUE(world.run_until([&] { return first->op.moved != 0; }));
    const int other = source == 1 ? 1 : 2;
    Out waits(0, {}, kLarge, 2);
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
  Out kept(1, {.group = 6}, kSmall, 3);
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
  In in(0, {.group = 6}, kSmall);
  world[1].recv(in.op);
  EXPECT_TRUE(in.done());
}

TEST(Transport, FaultsReachTheOtherSideWithKindTextAndPeer) {
  SimWorld world(2, {.window_bytes = 4096});
  Out stuck(1, {}, kLarge);
  In in(0, {}, kLarge);
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
  Out arrived(0, {.tag = 1}, kSmall, 1);
  world[1].send(arrived.op);
  world.run_to_end();
  Out to_dead(1, {}, kLarge);
  Out to_living(2, {}, kLarge);
  In from_dead(1, {.tag = 2}, kSmall);
  In from_living(2, {.tag = 2}, kSmall);
  In from_anyone(kAnySource, {.tag = 3}, kSmall);
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

  In reads_what_arrived(1, {.tag = 1}, kSmall);
  world[0].recv(reads_what_arrived.op);
  EXPECT_TRUE(reads_what_arrived.done());
  In too_late(1, {.tag = 1}, kSmall);
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
  Out announced(1, {}, kLarge);
  In in(1, {}, kSmall);
  Out last_words(0, {.tag = 8}, kSmall, 8);
  world[1].send(last_words.op);
  world[0].send(announced.op);
  world[0].recv(in.op);
  while (world.network().advance()) {
  }
  world[0].peer_died(1, {.kind = ErrorKind::peer_lost, .text = "process 12 was killed"});
  EXPECT_EQ(announced.state(), TransferState::lost);
  EXPECT_EQ(in.state(), TransferState::lost);
  EXPECT_EQ(world[0].failure(1)->text, "process 12 was killed");
  In late(1, {.tag = 8}, kSmall);
  world[0].recv(late.op);
  EXPECT_TRUE(late.done()) << "what had arrived can be received";
}

TEST(Transport, PeerThatLeavesInGoodOrderIsSaidToHaveLeft) {
  SimWorld world(2);
  Out last(1, {}, kSmall, 2);
  world[0].send(last.op);
  world.destroy(0);
  In in(0, {}, kSmall);
  In never(0, {}, kSmall);
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
  In in(0, {}, kSmall);
  Out out(1, {}, kSmall);
  world[1].recv(in.op);
  EXPECT_TRUE(world[1].arm());
  EXPECT_TRUE(world[1].arm()) << "a second sleeper";
  world[0].send(out.op);
  EXPECT_EQ(wakes, 0);
  world.run_to_end();
  EXPECT_EQ(wakes, 1);
  Out early(1, {}, kSmall);
  world[0].send(early.op);
  world.run_to_end();
  EXPECT_TRUE(world[1].arm());
  In late(0, {}, kSmall);
  world[1].recv(late.op);
  EXPECT_EQ(wakes, 1) << "who posts the receive sees it done himself";
}

TEST(Transport, CompletionsThatNobodyArmedForWakeTheNextThatArms) {
  SimWorld world(2);
  int wakes = 0;
  world[1].set_wake_callback([&] { ++wakes; });
  for (int i = 0; i < 3; ++i) {
    In in(0, {}, kSmall);
    Out out(1, {}, kSmall);
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
  Out small(1, {}, kSmall);
  world[0].send(small.op);
  EXPECT_TRUE(world[0].arm());
  EXPECT_EQ(wakes, 0);
  Out fills(1, {}, limits::kEagerBytes);
  world[0].send(fills.op);
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(world[0].arm());
  Out waits(1, {}, kSmall);
  world[0].send(waits.op);
  EXPECT_EQ(wakes, 1) << "they know already";
  world.run_to_end();
  EXPECT_EQ(waits.state(), TransferState::done);
}

TEST(Transport, MessagesSentBeforeTheLinkIsThereWaitForIt) {
  SimNetwork network(1);
  Transport first(0, 2, {});
  Transport second(1, 2, {});
  Out out(1, {}, kSmall);
  In in(0, {}, kSmall);
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
