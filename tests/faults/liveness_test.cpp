// Time limits, abort, forks, several threads: whatever one rank does, the others' calls end.
#include "base/log.hpp"
#include "harness/process_ranks.hpp"
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

namespace tutti {
namespace {

using testing::ProcessRanks;
using testing::RankOutcome;
using testing::Reporter;
using Seconds = std::chrono::duration<double>;

double seconds_since(TimePoint start) {
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

/// Runs `call`, which must throw E; returns the text and sets how long it took.
template <class E, class F>
std::string text_of(F call, double& seconds) {
  const TimePoint start = std::chrono::steady_clock::now();
  std::string text;
  try {
    call();
  } catch (const E& error) {
    text = error.what();
  }
  seconds = seconds_since(start);
  return text;
}

TEST(Abort, EndsAPendingCallAtOnceAndOtherGroupsGoOn_FC_E4) {
  std::latch stuck(2);
  std::latch aborted(2);
  testing::run_thread_ranks(2, [&](Context& context) {
    Group group = context.new_group();
    Group other = context.new_group();
    double seconds = 0;
    if (group.rank() == 0) {
      std::thread helper([&] {
        stuck.arrive_and_wait();
        group.abort("a test asked for it");
      });
      const std::string text = text_of<Aborted>(
          [&] {
            const Work work = async::all_reduce(group, Tensor::zeros({1}));
            stuck.count_down();
            work.wait();
          },
          seconds);
      helper.join();
      EXPECT_NE(text.find("abort"), std::string::npos) << text;
      EXPECT_LT(seconds, 1.0);
    }
    aborted.arrive_and_wait();
    EXPECT_THROW(barrier(group), Aborted) << "later calls fail as well, on every rank";
    const Tensor tensor = Tensor::full({1}, other.rank() + 1.0);
    all_reduce(other, tensor);
    EXPECT_EQ(tensor.item(), 3.0);
    Group fresh = context.new_group();
    const Tensor again = Tensor::full({1}, fresh.rank() + 1.0);
    all_reduce(fresh, again);
    EXPECT_EQ(again.item(), 3.0);
  });
}

TEST(Timeout, OfTheGroupCanBeChangedAndGivenPerCall_FC_F2) {
  std::latch done(2);
  testing::run_thread_ranks(2, [&](Context& context) {
    Group group = context.new_group({}, {.timeout = std::chrono::seconds(30)});
    Group other = context.new_group({}, {.timeout = std::chrono::seconds(30)});
    if (group.rank() == 0) {
      double seconds = 0;
      group.set_timeout(std::chrono::seconds(1));
      std::string text = text_of<tutti::Timeout>([&] { barrier(group); }, seconds);
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      EXPECT_GT(seconds, 0.9);
      EXPECT_LT(seconds, 2.5);
      text = text_of<tutti::Timeout>(
          [&] {
            all_reduce(other, Tensor::zeros({4}), {.timeout = std::chrono::milliseconds(300)});
          },
          seconds);
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      EXPECT_GT(seconds, 0.25);
      EXPECT_LT(seconds, 1.2);
    }
    done.arrive_and_wait();
  });
}

TEST(Timeout, OfAWaitEndsTheWaitingOnly) {
  std::latch waited(2);
  testing::run_thread_ranks(2, [&](Context& context) {
    Group group = context.world();
    const Tensor tensor = Tensor::full({8}, 1.0);
    if (group.rank() == 0) {
      const Work work = async::all_reduce(group, tensor);
      EXPECT_THROW(work.wait(std::chrono::milliseconds(50)), tutti::Timeout);
      EXPECT_FALSE(work.is_completed());
      waited.arrive_and_wait();
      work.wait();
    } else {
      waited.arrive_and_wait();
      all_reduce(group, tensor);
    }
    EXPECT_EQ(tensor.element(0).real(), 2.0);
  });
}

TEST(MonitoredBarrier, NamesEverybodyWhoIsMissingAfterOneTimeout_FC_F4) {
  std::latch done(4);
  testing::run_thread_ranks(4, [&](Context& context) {
    Group group = context.new_group();
    if (group.rank() % 2 == 0) {
      double seconds = 0;
      const std::string text = text_of<tutti::Timeout>(
          [&] {
            monitored_barrier(group, {.timeout = std::chrono::seconds(1), .wait_all_ranks = true});
          },
          seconds);
      EXPECT_NE(text.find("rank 1, 3 did not come"), std::string::npos) << text;
      EXPECT_GT(seconds, 0.9);
      EXPECT_LT(seconds, 2.5);
    }
    done.arrive_and_wait();
  });
}

TEST(MonitoredBarrier, ReturnsWhenAllCame) {
  testing::run_thread_ranks(3, [](Context& context) {
    Group group = context.world();
    for (int i = 0; i < 5; ++i) {
      monitored_barrier(group, {.timeout = std::chrono::seconds(20)});
    }
  });
}

TEST(StalledRank, IsReportedAfterTenSeconds) {
  std::atomic<bool> reported{false};
  std::string line;
  set_log_sink([&](std::string_view text) {
    if (text.find("waiting for rank 1") != std::string_view::npos && !reported) {
      line = text;
      reported = true;
      reported.notify_all();
    }
  });
  const TimePoint start = std::chrono::steady_clock::now();
  testing::run_thread_ranks(2, [&](Context& context) {
    Group group = context.world();
    if (group.rank() == 1) {
      reported.wait(false);
    }
    barrier(group);
  });
  set_log_sink({});
  EXPECT_GT(seconds_since(start), 9.0);
  EXPECT_LT(seconds_since(start), 20.0);
  EXPECT_NE(line.find("barrier"), std::string::npos) << line;
}

TEST(Threads, BlockingOnTwoGroupsInOppositeOrderFinish) {
  testing::run_thread_ranks(2, [](Context& context) {
    Group one = context.new_group();
    Group two = context.new_group();
    const Tensor a = Tensor::full({300000}, 1.0);
    const Tensor b = Tensor::full({300000}, 1.0);
    const bool swap = context.world().rank() == 1;
    std::latch both(2);
    std::thread helper([&] {
      both.arrive_and_wait();
      all_reduce(swap ? one : two, swap ? a : b);
    });
    both.arrive_and_wait();
    all_reduce(swap ? two : one, swap ? b : a);
    helper.join();
    EXPECT_EQ(a.element(299999).real(), 2.0);
    EXPECT_EQ(b.element(299999).real(), 2.0);
  });
}

TEST(Threads, AsynchronousWorkOfOneGroupFinishesWhileAnotherBlocks) {
  std::latch second_done(2);
  testing::run_thread_ranks(2, [&](Context& context) {
    Group one = context.new_group();
    Group two = context.new_group();
    const Tensor a = Tensor::full({1000}, 1.0);
    const Tensor b = Tensor::full({1000}, 1.0);
    if (one.rank() == 0) {
      const Work work = async::all_reduce(two, b);
      work.then([&](const Work&) { second_done.count_down(); });
      all_reduce(one, a);  // blocks until rank 1 has seen the other group's work end
      work.wait();
    } else {
      all_reduce(two, b);
      second_done.arrive_and_wait();
      all_reduce(one, a);
    }
    EXPECT_EQ(a.element(0).real(), 2.0);
    EXPECT_EQ(b.element(0).real(), 2.0);
  });
}

TEST(Threads, GroupsIssuedInOppositeOrderFinish) {
  testing::run_thread_ranks(2, [](Context& context) {
    Group one = context.new_group();
    Group two = context.new_group();
    const Tensor a = Tensor::full({3000000}, 1.0);
    const Tensor b = Tensor::full({3000000}, 1.0);
    const bool swap = context.world().rank() == 1;
    std::vector<Work> works;
    works.push_back(async::all_reduce(swap ? two : one, swap ? b : a));
    works.push_back(async::all_reduce(swap ? one : two, swap ? a : b));
    wait_all(works);
    EXPECT_EQ(a.element(2999999).real(), 2.0);
    EXPECT_EQ(b.element(2999999).real(), 2.0);
  });
}

TEST(Barrier, IsABarrierAndEarlierWorkIsCompleteAfterIt_FC_E5) {
  std::array<std::atomic<int>, 21> entered{};
  testing::run_thread_ranks(4, [&](Context& context) {
    Group group = context.world();
    const Tensor tensor = Tensor::full({65536}, group.rank() + 1.0);
    const Work work = async::all_reduce(group, tensor);
    barrier(group);
    EXPECT_TRUE(work.is_completed());
    EXPECT_EQ(tensor.element(65535).real(), 10.0);
    for (std::size_t i = 0; i < entered.size(); ++i) {
      entered[i].fetch_add(1);
      barrier(group);
      EXPECT_EQ(entered[i].load(), 4) << "nobody leaves before everybody entered";
    }
  });
}

TEST(Fork, ChildMayNotCommunicateAndTheParentGoesOn_FC_M2) {
  testing::ProcessRanksOptions options{.size = 2};
  const std::vector<RankOutcome> outcomes =
      testing::run_process_ranks(options, [](Context& context, Reporter&) -> std::string {
        Group group = context.world();
        const Tensor x = Tensor::full({1}, group.rank() + 1.0, DType::i64);
        all_reduce(group, x);
        for (int i = 0; i < 4; ++i) {
          const pid_t child = ::fork();
          if (child == 0) {
            std::exit(0);  // runs destructors, as a data loader's worker does
          }
          int status = -1;
          ::waitpid(child, &status, 0);
          if (status != 0) {
            return "child ended with " + std::to_string(status);
          }
        }
        const pid_t child = ::fork();
        if (child == 0) {
          try {
            all_reduce(group, x);
          } catch (const Aborted&) {
            ::_exit(7);
          }
          ::_exit(1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
          return "a collective in the child did not raise";
        }
        const Tensor y = Tensor::full({1}, group.rank() + 1.0, DType::i64);
        all_reduce(group, y);
        return x.item() == 3.0 && y.item() == 3.0 ? "fine" : "wrong sum";
      });
  for (int rank = 0; rank < 2; ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.returned() && outcome.text == "fine") << testing::describe(rank, outcome);
  }
}

TEST(SmallShm, DoesNotMatter_FC_M1) {
  for (const char* size : {"size=64k", "size=1m"}) {
    testing::ProcessRanksOptions options{.size = 4};
    options.prepare = [size](int) {
      if (::unshare(CLONE_NEWNS) == 0) {
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, size);
      }
    };
    const std::vector<RankOutcome> outcomes =
        testing::run_process_ranks(options, [](Context& context, Reporter&) -> std::string {
          Group group = context.world();
          const Tensor tensor = Tensor::full({4194304}, 1.0);
          all_reduce(group, tensor);
          for (const std::size_t i : {std::size_t{0}, std::size_t{2000003}, std::size_t{4194303}}) {
            if (tensor.element(i).real() != 4.0) {
              return "wrong";
            }
          }
          return "fine";
        });
    for (int rank = 0; rank < 4; ++rank) {
      const RankOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(outcome.returned() && outcome.text == "fine")
          << size << testing::describe(rank, outcome);
    }
  }
}

}  // namespace
}  // namespace tutti
