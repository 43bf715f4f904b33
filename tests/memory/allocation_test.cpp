// Messages allocate nothing once as many have waited as will wait at a time. Both ranks are
// threads, each counted for itself. Not counted: what the background thread does on its own account
// when it looks around.
#include "harness/thread_ranks.hpp"
#include "memory/count_allocations.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

namespace tutti {
namespace {

/// Messages that wait for their receives, then receives that wait for their messages: as many of
/// each as will ever wait below. Which of the two waits is else a matter of timing, and so is
/// whether the background thread still holds the states of some that ended.
void fill_pools(const Group& group, const Tensor& out, const Tensor& in) {
  const int peer = 1 - group.rank();
  const Tensor token = Tensor::zeros({1});
  const auto meet = [&] {  // messages of a pair keep their order: what was sent before is there
    const Work sent = isend(group, token, peer, {.tag = 1});
    recv(group, token, peer, {.tag = 1});
    sent.wait();
  };
  std::array<Work, 32> works;
  for (const bool send_first : {true, false}) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (i == works.size() / 2) {
        meet();
      }
      const bool sends = send_first == (i < works.size() / 2);
      works[i] = sends ? isend(group, out, peer) : irecv(group, in, peer);
    }
    for (const Work& work : works) {
      work.wait();
    }
  }
}

/// Allocations of this rank in `rounds` calls of `call`, after some that are not counted.
template <typename Call>
std::uint64_t allocations_in(const Group& group, int rounds, Call call) {
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  barrier(group);
  const std::uint64_t before = testing::thread_allocation_count();
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  const std::uint64_t after = testing::thread_allocation_count();
  barrier(group);
  return after - before;
}

TEST(Allocation, MessagesMakeNone) {
  testing::run_thread_ranks(2, [](Context& context) {
    Group group = context.world();
    const int peer = 1 - group.rank();
    for (const std::int64_t elements : {1, 1000, 100000}) {
      const Tensor out = Tensor::zeros({elements});
      const Tensor in = Tensor::zeros({elements});
      fill_pools(group, out, in);
      EXPECT_EQ(allocations_in(group, 50,
                               [&] {
                                 if (group.rank() == 0) {
                                   send(group, out, peer);
                                   recv(group, in, peer);
                                 } else {
                                   recv(group, in, peer);
                                   send(group, out, peer);
                                 }
                               }),
                0U)
          << elements;
      EXPECT_EQ(allocations_in(group, 50,
                               [&] {
                                 std::array<Work, 8> works;
                                 for (std::size_t i = 0; i < works.size(); i += 2) {
                                   works[i] = irecv(group, in, peer);
                                   works[i + 1] = isend(group, out, peer);
                                 }
                                 for (const Work& work : works) {
                                   work.wait();
                                 }
                               }),
                0U)
          << elements;
    }
  });
}

/// Whether the kernel says that the thread sleeps.
bool is_asleep(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
}

TEST(Allocation, TheFirstSleepMakesNone) {
  std::atomic<pid_t> waiting{0};
  testing::run_thread_ranks(2, [&](Context& context) {
    Group group = context.world();
    const Tensor one = Tensor::zeros({1});
    fill_pools(group, one, Tensor::zeros({1}));
    const auto ping = [&] {
      if (group.rank() == 0) {
        send(group, one, 1);
      } else {
        recv(group, one, 0);
      }
    };
    for (int i = 0; i < 3; ++i) {
      ping();  // quick: nobody sleeps, unless the machine is busy
    }
    const std::uint64_t before = testing::thread_allocation_count();
    if (group.rank() == 0) {
      while (waiting == 0 || !is_asleep(waiting)) {
        ::sched_yield();
      }
      ping();
    } else {
      waiting = ::gettid();
      ping();
      EXPECT_EQ(testing::thread_allocation_count() - before, 0U);
    }
    barrier(group);  // to hear that a rank has left does allocate
  });
}

}  // namespace
}  // namespace tutti
