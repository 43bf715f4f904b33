// A rank dies, stops or leaves while the others communicate: they end in time, with the right type,
// and the text names the rank.
#include "faults/reduce_for_ever.hpp"
#include "harness/namespaces.hpp"
#include "harness/process_ranks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {
namespace {

using testing::ProcessRanks;
using testing::RankOutcome;
using testing::reduce_for_ever;
using testing::Reporter;

constexpr std::chrono::seconds kLimit{2};

class KilledRank : public ::testing::TestWithParam<std::string> {
 protected:
  testing::ProcessRanksOptions options(int size) const {
    return {.size = size, .init = {.timeout = std::chrono::minutes(10), .transport = GetParam()}};
  }
};

void expect_lost(const RankOutcome& outcome, int lost, TimePoint killed) {
  EXPECT_EQ(outcome.how, RankOutcome::How::threw) << outcome.text;
  EXPECT_EQ(outcome.kind, ErrorKind::peer_lost) << outcome.text;
  EXPECT_NE(outcome.text.find("rank " + std::to_string(lost)), std::string::npos) << outcome.text;
  EXPECT_LT(outcome.ended - killed, kLimit) << outcome.text;
}

/// Abstract sockets of this library that the kernel knows.
int open_abstract_sockets() {
  std::ifstream table("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(table, line);) {
    count += line.find("@tutti-") != std::string::npos ? 1 : 0;
  }
  return count;
}

std::size_t files_in_shm() {
  std::error_code error;
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/dev/shm", error)) {
    ++count;
  }
  return count;
}

TEST_P(KilledRank, EndsTheOthersWithinTwoSecondsAndLeavesNothing_FC_F1) {
  // Where that is permitted, sockets and files of other jobs on this machine are out of sight.
  if (testing::enter_private_namespaces().empty()) {
    testing::mount_dev_shm(std::size_t{64} << 20);
  }
  const int sockets_before = open_abstract_sockets();
  const std::size_t files_before = files_in_shm();
  {
    ProcessRanks ranks(options(4), reduce_for_ever);
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(ranks.await_note(rank, "running"));
    }
    const TimePoint killed = std::chrono::steady_clock::now();
    ranks.send_signal(2, SIGKILL);
    const std::vector<RankOutcome> outcomes = ranks.wait();
    for (const int rank : {0, 1, 3}) {
      expect_lost(outcomes[static_cast<std::size_t>(rank)], 2, killed);
    }
    EXPECT_EQ(outcomes[2].how, RankOutcome::How::signalled);
  }
  EXPECT_EQ(open_abstract_sockets(), sockets_before);
  EXPECT_EQ(files_in_shm(), files_before);
}

TEST_P(KilledRank, IsNoticedAlthoughAForkedChildOfItLivesOn) {
  ProcessRanks ranks(options(3), [](Context& context, Reporter& reporter) {
    if (context.world().rank() == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::pause();  // keeps whatever it inherited; ends with the test's process group
        ::_exit(0);
      }
      reporter.note("child " + std::to_string(child));
    }
    return reduce_for_ever(context, reporter);
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.await_note(rank, "running"));
  }
  const TimePoint killed = std::chrono::steady_clock::now();
  ranks.send_signal(1, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.wait();
  expect_lost(outcomes[0], 1, killed);
  expect_lost(outcomes[2], 1, killed);
  for (const std::string& note : outcomes[1].notes) {
    if (note.starts_with("child ")) {
      ::kill(std::stoi(note.substr(6)), SIGKILL);
    }
  }
}

TEST_P(KilledRank, FailsAGroupThatHasNotCommunicatedYet_FC_F1) {
  ProcessRanks ranks(options(3), [](Context& context, Reporter& reporter) -> std::string {
    Group fresh = context.new_group();
    if (fresh.rank() == 2) {
      reporter.note("made");
      ::pause();
    }
    reporter.note("made");
    const Tensor tensor = Tensor::full({4}, 1.0);
    all_reduce(fresh, tensor);
    return "no error";
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.await_note(rank, "made"));
  }
  const TimePoint killed = std::chrono::steady_clock::now();
  ranks.send_signal(2, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.wait();
  expect_lost(outcomes[0], 2, killed);
  expect_lost(outcomes[1], 2, killed);
}

TEST_P(KilledRank, EndsTheMakingOfAGroupItIsNotEvenIn) {
  ProcessRanks ranks(options(3), [](Context& context, Reporter& reporter) -> std::string {
    if (context.world().rank() == 2) {
      reporter.note("here");
      ::pause();
    }
    reporter.note("here");
    context.new_group(std::vector<int>{0, 1});
    return "no error";
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.await_note(rank, "here"));
  }
  const TimePoint killed = std::chrono::steady_clock::now();
  ranks.send_signal(2, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.wait();
  expect_lost(outcomes[0], 2, killed);
  expect_lost(outcomes[1], 2, killed);
}

TEST_P(KilledRank, IsNamedByAMonitoredBarrierOnEveryRank) {
  ProcessRanks ranks(options(4), [](Context& context, Reporter& reporter) -> std::string {
    Group group = context.world();
    reporter.note("here");
    if (group.rank() == 2) {
      ::pause();
    }
    monitored_barrier(group, {.timeout = std::chrono::seconds(30)});
    return "no error";
  });
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(ranks.await_note(rank, "here"));
  }
  const TimePoint killed = std::chrono::steady_clock::now();
  ranks.send_signal(2, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.wait();
  for (const int rank : {0, 1, 3}) {
    expect_lost(outcomes[static_cast<std::size_t>(rank)], 2, killed);
  }
}

TEST_P(KilledRank, EndsAReceiveFromIt) {
  ProcessRanks ranks(options(2), [](Context& context, Reporter& reporter) -> std::string {
    Group group = context.world();
    const Tensor tensor = Tensor::zeros({8});
    reporter.note("here");
    recv(group, tensor, 1 - group.rank(), {.tag = 5});
    return "no error";
  });
  ASSERT_TRUE(ranks.await_note(0, "here"));
  ASSERT_TRUE(ranks.await_note(1, "here"));
  const TimePoint killed = std::chrono::steady_clock::now();
  ranks.send_signal(1, SIGKILL);
  expect_lost(ranks.wait()[0], 1, killed);
}

TEST_P(KilledRank, ThatOnlyStoppedIsATimeoutNamingIt) {
  ProcessRanks ranks(options(3), [](Context& context, Reporter& reporter) -> std::string {
    Group group = context.world();
    const Tensor tensor = Tensor::full({1000}, 1.0);
    all_reduce(group, tensor);
    group.set_timeout(std::chrono::milliseconds(700));
    if (group.rank() == 1) {
      reporter.note("ready");
      ::pause();
    }
    all_reduce(group, tensor);
    return "no error";
  });
  ASSERT_TRUE(ranks.await_note(1, "ready"));
  ranks.send_signal(1, SIGSTOP);
  const std::vector<int> others{0, 2};
  for (const RankOutcome& outcome : ranks.wait(others)) {
    EXPECT_EQ(outcome.kind, ErrorKind::timeout) << outcome.text;
    // Also the rank that waits for one that waits itself names the one that is missing.
    EXPECT_NE(outcome.text.find("nothing from rank 1 "), std::string::npos) << outcome.text;
  }
}

TEST_P(KilledRank, ThatSentEverythingAndLeftIsNoFailure_FC_D4) {
  ProcessRanks ranks(options(2), [](Context& context, Reporter& reporter) -> std::string {
    Group group = context.world();
    const Tensor tensor = Tensor::arange(262144, DType::f32);
    if (group.rank() == 0) {
      static_cast<void>(isend(group, tensor, 1));
      reporter.note("posted");
      return "left";  // the context is destroyed: what was accepted is delivered first
    }
    reporter.note("waiting");
    recv(group, tensor, 0);
    return std::to_string(tensor.element(1000).real());
  });
  const std::vector<RankOutcome> outcomes = ranks.wait();
  EXPECT_TRUE(outcomes[0].returned()) << testing::describe(0, outcomes[0]);
  EXPECT_TRUE(outcomes[1].returned()) << testing::describe(1, outcomes[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, KilledRank, ::testing::Values("shm", "tcp"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tutti
