#include "net/poller.hpp"

#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::pipe(fds.data()), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

TEST(Poller, ReportsReadyDescriptorsByToken) {
  Poller poller;
  const Pipe pipe = make_pipe();
  poller.add(pipe.read_end.get(), EPOLLIN, 42);
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  const auto events = poller.wait(seconds(10));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].token, 42U);
  EXPECT_NE(events[0].events & EPOLLIN, 0U);
  poller.remove(pipe.read_end.get());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
}

TEST(Poller, BellEndsAWaitAndIsNotReportedAsAnEvent) {
  Poller poller;
  std::thread ringer([&poller] { poller.wake(); });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(poller.wait(seconds(30)).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  ringer.join();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
}

TEST(Poller, ModifyChangesWhatIsWatched) {
  Poller poller;
  const Pipe pipe = make_pipe();
  poller.add(pipe.write_end.get(), 0, 1);
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  poller.modify(pipe.write_end.get(), EPOLLOUT, 2);
  const auto events = poller.wait(milliseconds(100));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].token, 2U);
}

}  // namespace
}  // namespace tutti
