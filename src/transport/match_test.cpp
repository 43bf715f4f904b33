#include "transport/match.hpp"

#include <tutti/options.hpp>

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

namespace tutti {
namespace {

constexpr MessageKey kKey{.group = 1, .tag = 2};

struct Receive : RecvOp {
  explicit Receive(int from, MessageKey wanted = kKey) {
    peer = from;
    key = wanted;
  }
};

Arrival& arrive(MatchTable& table, std::deque<Arrival>& arrivals, int peer, MessageKey key = kKey,
                Arrival::Form form = Arrival::Form::eager) {
  Arrival& arrival = arrivals.emplace_back();
  arrival.peer = peer;
  arrival.key = key;
  arrival.form = form;
  table.add(arrival);
  return arrival;
}

TEST(MatchTable, OldestReceiveThatFitsTakesTheMessage) {
  MatchTable table;
  Receive other_peer(4);
  Receive other_key(3, {.group = 1, .tag = 3});
  Receive anyone(kAnySource);
  Receive first(3);
  Receive second(3);
  for (Receive* receive : {&other_peer, &other_key}) {
    EXPECT_EQ(table.take_or_post(*receive), nullptr);
  }
  EXPECT_EQ(table.take_or_post(first), nullptr);
  EXPECT_EQ(table.turn_or_post(anyone), -1);
  EXPECT_EQ(table.take_or_post(second), nullptr);
  EXPECT_EQ(table.take_posted(3, kKey), &first);
  EXPECT_EQ(first.source, 3);
  EXPECT_EQ(table.take_posted(3, kKey), &anyone);
  EXPECT_EQ(anyone.source, 3);
  EXPECT_EQ(table.take_posted(3, kKey), &second);
  EXPECT_EQ(table.take_posted(3, kKey), nullptr);
  EXPECT_EQ(table.take_posted(4, kKey), &other_peer);
  EXPECT_EQ(table.take_posted(3, other_key.key), &other_key);
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, OldestMessageOfThePeerIsTaken) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  Arrival& first = arrive(table, arrivals, 1);
  arrive(table, arrivals, 2);
  Arrival& third = arrive(table, arrivals, 1);
  Receive a(1);
  Receive b(1);
  EXPECT_EQ(table.take_or_post(a), &first);
  EXPECT_EQ(table.take_or_post(b), &third);
  Receive anyone(kAnySource);
  EXPECT_EQ(table.turn_or_post(anyone), 2);
  EXPECT_EQ(table.take(anyone, 1), nullptr);
  EXPECT_NE(table.take(anyone, 2), nullptr);
  EXPECT_EQ(anyone.source, 2);
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, PeersTakeTurns) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  for (const int peer : {5, 5, 5, 6, 7, 7}) {
    arrive(table, arrivals, peer);
  }
  Receive anyone(kAnySource);
  for (const int expected : {5, 6, 7, 5, 7, 5}) {
    ASSERT_EQ(table.turn_or_post(anyone), expected);
    ASSERT_NE(table.take(anyone, expected), nullptr);
  }
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, RemovesFromTheMiddle) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  Arrival& a = arrive(table, arrivals, 1);
  Arrival& b = arrive(table, arrivals, 1);
  Arrival& c = arrive(table, arrivals, 1);
  EXPECT_TRUE(table.remove(b));
  EXPECT_FALSE(table.remove(b));
  EXPECT_TRUE(table.remove(c));
  Arrival& d = arrive(table, arrivals, 1);
  Receive receive(1);
  EXPECT_EQ(table.take(receive, 1), &a);
  EXPECT_EQ(table.take(receive, 1), &d);
  EXPECT_EQ(table.size(), 0U);

  std::array<Receive, 3> posted{Receive(1), Receive(1), Receive(1)};
  for (Receive& op : posted) {
    table.take_or_post(op);
  }
  EXPECT_TRUE(table.unpost(posted[2]));
  EXPECT_TRUE(table.unpost(posted[0]));
  EXPECT_FALSE(table.unpost(posted[0]));
  EXPECT_EQ(table.take_posted(1, kKey), &posted[1]);
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, PostedAgainTakesItsOldPlace) {
  MatchTable table;
  std::array<Receive, 3> posted{Receive(1), Receive(1), Receive(1)};
  for (Receive& op : posted) {
    table.take_or_post(op);
  }
  ASSERT_EQ(table.take_posted(1, kKey), &posted[0]);
  ASSERT_EQ(table.take_posted(1, kKey), &posted[1]);
  table.post_again(posted[1]);
  table.post_again(posted[0]);
  for (Receive& op : posted) {
    EXPECT_EQ(table.take_posted(1, kKey), &op);
  }
}

TEST(MatchTable, FindsReceivesFromAnyoneThatCameBackToWaitingMessages) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  Receive anyone(kAnySource);
  table.turn_or_post(anyone);
  ASSERT_EQ(table.take_posted(1, kKey), &anyone);
  Arrival& waits = arrive(table, arrivals, 2);
  EXPECT_FALSE(table.unsettled(kKey).has_value());
  table.post_again(anyone);
  ASSERT_EQ(table.unsettled(kKey), 2);
  EXPECT_EQ(table.take_pair(kKey, 1).op, nullptr);
  const auto pair = table.take_pair(kKey, 2);
  EXPECT_EQ(pair.op, &anyone);
  EXPECT_EQ(pair.arrival, &waits);
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, LosesWhatOnlyTheLostPeerCouldComplete) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  const MessageKey other{.group = 9};
  Receive from_lost(1, other);
  Receive from_living(2, other);
  Receive from_anyone(kAnySource, other);
  table.take_or_post(from_lost);
  table.take_or_post(from_living);
  table.turn_or_post(from_anyone);
  Arrival& whole = arrive(table, arrivals, 1);
  Arrival& announced = arrive(table, arrivals, 1, kKey, Arrival::Form::announced);
  const auto lost = table.lose_peer(1);
  EXPECT_EQ(lost.receives, &from_lost);
  EXPECT_EQ(lost.receives->next, nullptr);
  EXPECT_EQ(lost.arrivals, &announced);
  EXPECT_EQ(lost.arrivals->next, nullptr);
  Receive receive(1);
  EXPECT_EQ(table.take(receive, 1), &whole);
  EXPECT_EQ(table.take_posted(2, other), &from_living);
  EXPECT_EQ(table.take_posted(2, other), &from_anyone);
  EXPECT_EQ(table.size(), 0U);
}

TEST(MatchTable, ForgetsOneGroupOfOnePeer) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  for (const int peer : {1, 2}) {
    for (const std::uint64_t group : {3U, 4U}) {
      arrive(table, arrivals, peer, {.group = group, .tag = 1});
      arrive(table, arrivals, peer, {.group = group, .tag = 2});
    }
  }
  EXPECT_EQ(table.peers_of_group(3), (std::vector<int>{1, 2}));
  int forgotten = 0;
  for (Arrival* arrival = table.forget(3, 1); arrival != nullptr; arrival = arrival->next) {
    ++forgotten;
    EXPECT_EQ(arrival->peer, 1);
    EXPECT_EQ(arrival->key.group, 3U);
  }
  EXPECT_EQ(forgotten, 2);
  EXPECT_EQ(table.peers_of_group(3), (std::vector<int>{2}));
  EXPECT_EQ(table.peers_of_group(4), (std::vector<int>{1, 2}));
}

TEST(MatchTable, GrowsAndEmptiesWithThousandsOfKeys) {
  MatchTable table;
  std::deque<Arrival> arrivals;
  constexpr std::uint64_t kKeys = 5000;
  for (std::uint64_t tag = 0; tag < kKeys; ++tag) {
    arrive(table, arrivals, static_cast<int>(tag % 7), {.group = 8, .tag = tag});
  }
  EXPECT_EQ(table.size(), 2 * kKeys);
  for (std::uint64_t tag = 0; tag < kKeys; ++tag) {
    Receive receive(static_cast<int>(tag % 7), {.group = 8, .tag = tag});
    ASSERT_EQ(table.take_or_post(receive), &arrivals[tag]);
  }
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace tutti
