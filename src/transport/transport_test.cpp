// Paths of a message that arrives, over simulated links: whole, announced, to oneself, from anyone,
// refused because it does not fit.
#include "transport/transport.hpp"

#include "base/limits.hpp"
#include "transport/sim_world.hpp"
#include "transport/test_ops.hpp"

#include <tutti/options.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

namespace tutti {
namespace {

TEST(Transport, CarriesMessagesOfEverySizeWhicheverSideIsFirst) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, limits::kEagerBytes,
                                  limits::kEagerBytes + 1, limits::kChunkBytes, kLargeBytes + 3}) {
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
    ins.emplace_back((rank + 3) % 4, MessageKey{}, kLargeBytes);
    outs.emplace_back((rank + 1) % 4, MessageKey{}, kLargeBytes, static_cast<unsigned>(rank));
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
  for (const std::size_t bytes : {kSmallBytes, kLargeBytes}) {
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
    outs.emplace_back(0, MessageKey{}, kSmallBytes, i);
    world[i < 3 ? 1 : 2].send(outs.back().op);
  }
  world.run_to_end();
  std::vector<int> sources;
  for (int i = 0; i < 6; ++i) {
    In in(kAnySource, {}, kSmallBytes);
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
  Out late(1, {.group = 9}, kSmallBytes, 9);
  In in(0, {.group = 9}, kSmallBytes);
  world[0].send(late.op);
  world[1].recv(in.op);
  EXPECT_TRUE(world.run_until([&] { return in.done(); }));
}

TEST(Transport, OneBlockedMessageDoesNotBlockOthers) {
  SimWorld world(2);
  Out blocked(1, {.tag = 1}, kLargeBytes);
  Out other(1, {.tag = 2}, kLargeBytes, 3);
  In in(0, {.tag = 2}, kLargeBytes);
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
  for (const std::size_t bytes : {kSmallBytes, kLargeBytes}) {
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
  Out large(1, {}, kLargeBytes);
  Out small(1, {}, kSmallBytes);
  In expects_small(0, {}, kSmallBytes);
  In expects_large(0, {}, kLargeBytes);
  world[0].send(large.op);
  world[0].send(small.op);
  world[1].recv(expects_small.op);
  world[1].recv(expects_large.op);
  world.run_to_end();
  EXPECT_EQ(expects_small.state(), TransferState::mismatch);
  EXPECT_EQ(expects_small.op.their_bytes, kLargeBytes);
  EXPECT_EQ(expects_large.state(), TransferState::mismatch);
  EXPECT_EQ(expects_large.op.their_bytes, kSmallBytes);
}

TEST(Transport, MessagesToOneselfNeedNoLink) {
  Transport alone(0, 1, {});
  for (const std::size_t bytes : {std::size_t{0}, kSmallBytes, kLargeBytes}) {
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
  Out wrong(0, {}, kLargeBytes);
  wrong.op.stamp = 1;
  In in(0, {}, kLargeBytes);
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

}  // namespace
}  // namespace tutti
