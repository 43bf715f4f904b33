// The server without sockets: handshake, framing, back-pressure and time, one step at a time.
#include "store/server_core.hpp"

#include "base/limits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Id = StoreServerCore::SessionId;

class ServerCore : public testing::Test {
 protected:
  void feed(Id id, std::string_view bytes) {
    core_.receive(id, std::as_bytes(std::span(bytes)), now_);
  }
  void feed(Id id, WireWriter& frame) { feed(id, std::string_view(frame.frame())); }

  /// Everything the core has to say to `id`.
  std::string drain(Id id) {
    std::string all;
    while (core_.has_output(id)) {
      std::array<iovec, 4> parts;
      std::size_t bytes = 0;
      for (const iovec& part : core_.gather(id, parts)) {
        all.append(static_cast<const char*>(part.iov_base), part.iov_len);
        bytes += part.iov_len;
      }
      core_.consume(id, bytes, now_);
    }
    return all;
  }

  Id connect() {
    const Id id = core_.open(now_);
    Handshake client(Role::client, "secret");
    while (client.state() == Handshake::State::running) {
      core_.receive(id, client.take_output(), now_);
      const std::string answer = drain(id);
      client.feed(std::as_bytes(std::span(answer)));
    }
    EXPECT_EQ(client.state(), Handshake::State::accepted);
    return id;
  }

  static WireWriter request(StoreOp op) { return {1, static_cast<std::uint8_t>(op)}; }
  static WireWriter set_request(std::string_view key, std::string_view value) {
    WireWriter frame = request(StoreOp::set);
    frame.text(key).text(value);
    return frame;
  }
  static WireWriter get_request(std::string_view key, milliseconds limit) {
    WireWriter frame = request(StoreOp::get);
    frame.u64(static_cast<std::uint64_t>(limit.count())).u32(1).text(key);
    return frame;
  }
  static std::string ok() {
    WireWriter frame(1, static_cast<std::uint8_t>(StoreStatus::ok));
    return frame.frame();
  }

  StoreServerCore core_{"secret"};
  TimePoint now_{seconds(1000)};
};

TEST_F(ServerCore, TakesFramesByteByByte) {
  const Id id = connect();
  WireWriter frame = set_request("k", "v");
  const std::string bytes = frame.frame();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(core_.has_output(id));
    feed(id, bytes.substr(i, 1));
  }
  EXPECT_EQ(drain(id), ok());
  EXPECT_EQ(core_.buffered_bytes(), 0U);
}

TEST_F(ServerCore, TakesManyFramesAtOnceAndHandshakeWithThem) {
  const Id id = core_.open(now_);
  Handshake client(Role::client, "secret");
  core_.receive(id, client.take_output(), now_);
  const std::string hello = drain(id);
  client.feed(std::as_bytes(std::span(hello)));
  const auto proof = client.take_output();
  std::string bytes(reinterpret_cast<const char*>(proof.data()), proof.size());
  bytes += set_request("a", "1").frame() + set_request("b", "2").frame();
  feed(id, bytes);
  const std::string answer = drain(id);
  EXPECT_EQ(answer.substr(Handshake::kVerdictBytes), ok() + ok());
}

TEST_F(ServerCore, RefusesABadProofAfterSayingSo) {
  const Id id = core_.open(now_);
  Handshake client(Role::client, "another secret");
  core_.receive(id, client.take_output(), now_);
  const std::string hello = drain(id);
  client.feed(std::as_bytes(std::span(hello)));
  core_.receive(id, client.take_output(), now_);
  EXPECT_TRUE(core_.is_doomed(id));
  EXPECT_FALSE(core_.is_dead(id));
  EXPECT_FALSE(core_.wants_input(id));
  const std::string verdict = drain(id);
  client.feed(std::as_bytes(std::span(verdict)));
  EXPECT_EQ(client.state(), Handshake::State::refused);
  feed(id, set_request("k", "v").frame());  // too late
  EXPECT_FALSE(core_.has_output(id));
}

TEST_F(ServerCore, AnOversizedLengthIsFatalBeforeAnythingIsKept) {
  const Id id = connect();
  const std::string length("\x00\x00\x20\x04", 4);  // 66 MiB
  feed(id, length);
  EXPECT_TRUE(core_.is_dead(id));
  EXPECT_EQ(core_.buffered_bytes(), 0U);
}

TEST_F(ServerCore, KeepsOnlyWhatArrivedOfALargeFrame) {
  const Id id = connect();
  WireWriter frame = set_request("k", std::string(std::size_t{1} << 20, 'x'));
  feed(id, std::string_view(frame.frame()).substr(0, 1000));
  EXPECT_EQ(core_.buffered_bytes(), 1000U);
  core_.close(id);
  EXPECT_EQ(core_.buffered_bytes(), 0U);
}

TEST_F(ServerCore, UnreadRepliesStopASessionUntilTheyAreSent) {
  const Id id = connect();
  feed(id, set_request("k", std::string(kStoreCopiedBytes, 'x')).frame());
  (void)drain(id);
  const std::string get = get_request("k", milliseconds(0)).frame();
  const std::size_t count = 2 * limits::kStoreBacklogPauseBytes / kStoreCopiedBytes;
  std::string many;
  for (std::size_t i = 0; i < count; ++i) {
    many += get;
  }
  feed(id, many);
  EXPECT_FALSE(core_.wants_input(id));
  EXPECT_LT(core_.buffered_bytes(),
            limits::kStoreBacklogPauseBytes + many.size() + 2 * kStoreCopiedBytes);
  const std::size_t reply_bytes = ok().size() + 4 + kStoreCopiedBytes;
  EXPECT_EQ(drain(id).size(), count * reply_bytes);  // going on as it drains
  EXPECT_TRUE(core_.wants_input(id));
  EXPECT_EQ(core_.buffered_bytes(), 0U);
}

TEST_F(ServerCore, LargeValuesAreNotCopiedPerReader) {
  const Id writer = connect();
  feed(writer, set_request("k", std::string(std::size_t{1} << 20, 'x')).frame());
  const std::string get = get_request("k", milliseconds(0)).frame();
  for (int i = 0; i < 100; ++i) {
    const Id reader = connect();
    feed(reader, get);
  }
  EXPECT_LT(core_.buffered_bytes(), std::size_t{100} << 10);
}

TEST_F(ServerCore, AReplacedValueStillReachesWhoAskedBefore) {
  const Id id = connect();
  const std::string old_value(std::size_t{10} << 10, 'o');
  feed(id, set_request("k", old_value).frame());
  (void)drain(id);
  feed(id, get_request("k", milliseconds(0)).frame());
  WireWriter append = request(StoreOp::append);
  feed(id, append.text("k").text("more"));
  feed(id, set_request("k", std::string(std::size_t{10} << 10, 'n')).frame());
  const std::string replies = drain(id);
  EXPECT_EQ(replies.substr(ok().size() + 4, old_value.size()), old_value);
}

TEST_F(ServerCore, ParkedCallsEndAtTheirDeadline) {
  const Id id = connect();
  feed(id, get_request("k", milliseconds(500)).frame());
  EXPECT_FALSE(core_.has_output(id));
  ASSERT_TRUE(core_.next_deadline().has_value());
  EXPECT_EQ(*core_.next_deadline(), now_ + milliseconds(500));
  now_ += milliseconds(499);
  core_.expire(now_);
  EXPECT_FALSE(core_.has_output(id));
  now_ += milliseconds(1);
  core_.expire(now_);
  EXPECT_NE(drain(id).find("'k' still missing after 0.5 s"), std::string::npos);
  EXPECT_FALSE(core_.next_deadline().has_value());
}

TEST_F(ServerCore, TooManyParkedCallsAreRefusedNotKept) {
  const Id id = connect();
  const std::string get = get_request("k", milliseconds(60'000)).frame();
  for (std::size_t i = 0; i < limits::kMaxStoreWaitsPerClient; ++i) {
    feed(id, get);
  }
  EXPECT_FALSE(core_.has_output(id));
  feed(id, get);
  EXPECT_NE(drain(id).find("too many calls wait"), std::string::npos);
}

TEST_F(ServerCore, QueueElementsGoToTheFirstWhoWaitsAndStays) {
  const auto pop = [this](Id id) {
    WireWriter frame = request(StoreOp::queue_pop);
    feed(id, frame.u64(60'000).text("q"));
  };
  const Id first = connect();
  const Id second = connect();
  const Id third = connect();
  pop(first);
  pop(second);
  pop(third);
  core_.close(first);
  WireWriter push = request(StoreOp::queue_push);
  feed(third, push.text("q").text("x"));
  EXPECT_TRUE(core_.has_output(second));
  EXPECT_EQ(drain(third), ok());
}

TEST_F(ServerCore, AStrangerHasTheHandshakeTimeAndNoMore) {
  const Id id = core_.open(now_);
  EXPECT_EQ(core_.oldest_stranger(), id);
  now_ += limits::kHandshakeTimeout;
  core_.expire(now_);
  EXPECT_TRUE(core_.is_dead(id));
  EXPECT_FALSE(core_.oldest_stranger().has_value());
}

TEST_F(ServerCore, ChangedSessionsAreReportedOnce) {
  const Id waiting = connect();
  const Id setting = connect();
  feed(waiting, get_request("k", milliseconds(1000)).frame());
  (void)core_.take_changed();
  feed(setting, set_request("k", "v").frame());
  EXPECT_EQ(core_.take_changed(), (std::vector<Id>{waiting, setting}));
  EXPECT_TRUE(core_.take_changed().empty());
}

}  // namespace
}  // namespace tutti
