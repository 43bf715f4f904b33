// Small /dev/shm, and kernels or sandboxes without memfd_create: a rank then shares unnamed files
// in /dev/shm, and where those have no room it communicates over TCP. Never a file left, never
// SIGBUS.
#include "base/ensure.hpp"
#include "faults/reduce_for_ever.hpp"
#include "harness/namespaces.hpp"
#include "harness/process_ranks.hpp"
#include "harness/process_view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::ProcessRanks;
using testing::RankOutcome;
using testing::reduce_for_ever;
using testing::Reporter;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

/// From here on this process has a kernel without memfd_create.
void lose_memfd(int) {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  ensure(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
             ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
         "a system call can be taken away");
}

/// Adds 16 MiB of ones per rank. "sum in 4 segments", which it notes, or what is wrong.
std::string sum_of_ones(Context& context, Reporter& reporter) {
  constexpr std::int64_t kElements = 4 * 1024 * 1024;
  Group world = context.world();
  const Tensor tensor = Tensor::full({kElements}, 1.0);
  all_reduce(world, tensor);
  const std::set<std::string> segments = testing::mapped_segments();
  reporter.note(fmt::format("{}", fmt::join(segments, "\n")));
  for (std::int64_t i = 0; i < kElements; ++i) {
    if (tensor.element(i).real() != world.size()) {
      return fmt::format("element {} is {}", i, tensor.element(i).real());
    }
  }
  return fmt::format("sum in {} segments", segments.size());
}

void expect_all(const std::vector<RankOutcome>& outcomes, const std::string& text) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].returned())
        << testing::describe(static_cast<int>(rank), outcomes[rank]);
    EXPECT_EQ(outcomes[rank].text, text);
  }
}

TEST(NoMemfd, RanksShareFilesWithoutNames) {
  const std::vector<RankOutcome> outcomes =
      testing::run_process_ranks({.size = 3, .prepare = lose_memfd}, sum_of_ones);
  expect_all(outcomes, "sum in 3 segments");
  for (const RankOutcome& outcome : outcomes) {
    ASSERT_EQ(outcome.notes.size(), 1U);
    EXPECT_EQ(outcome.notes[0].find("memfd"), std::string::npos) << outcome.notes[0];
    EXPECT_NE(outcome.notes[0].find("/dev/shm/#"), std::string::npos) << outcome.notes[0];
  }
}

/// In a /dev/shm of the test's own.
class SmallDevShm : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::enter_private_namespaces(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    testing::mount_dev_shm(GetParam());
  }

  static std::size_t free_bytes() {
    struct statvfs facts {};
    EXPECT_EQ(::statvfs("/dev/shm", &facts), 0);
    return facts.f_bfree * facts.f_frsize;
  }
};

class EnoughDevShm : public SmallDevShm {};
class ScarceDevShm : public SmallDevShm {};

TEST_P(EnoughDevShm, IsEmptyAgainWhenRanksWithoutMemfdAreKilled) {
  const std::size_t before = free_bytes();
  ProcessRanks ranks({.size = 3, .prepare = lose_memfd}, reduce_for_ever);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_TRUE(ranks.await_note(rank, "running"));
  }
  EXPECT_LT(free_bytes(), before);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ranks.send_signal(rank, SIGKILL);
  }
  ranks.wait();
  EXPECT_TRUE(std::filesystem::is_empty("/dev/shm"));
  EXPECT_EQ(free_bytes(), before);
}

/// Room for two of four, or fewer if they ask at the same moment.
TEST_P(ScarceDevShm, HoldsSomeOfTheRanksWithoutMemfdWhileTheOthersUseTcp_FC_M1) {
  const std::vector<RankOutcome> outcomes =
      testing::run_process_ranks({.size = 4, .prepare = lose_memfd}, sum_of_ones);
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.returned()) << outcome.text;
    EXPECT_TRUE(outcome.text.starts_with("sum in ")) << outcome.text;
  }
  EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), [](const RankOutcome& outcome) {
    return outcome.text == "sum in 0 segments";
  }));
}

TEST_P(SmallDevShm, DoesNotMatterToRanksWithMemfd_FC_M1) {
  expect_all(testing::run_process_ranks({.size = 4}, sum_of_ones), "sum in 4 segments");
}

TEST_P(SmallDevShm, LeavesRanksWithoutMemfdTcp_FC_M1) {
  expect_all(testing::run_process_ranks({.size = 4, .prepare = lose_memfd}, sum_of_ones),
             "sum in 0 segments");
}

TEST_P(SmallDevShm, IsAnErrorOnAllRanksThatInsistOnSharedMemory) {
  const std::vector<RankOutcome> outcomes = testing::run_process_ranks(
      {.size = 2, .init = {.transport = "shm"}, .prepare = lose_memfd}, sum_of_ones);
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.how, RankOutcome::How::threw) << outcome.text;
    EXPECT_NE(outcome.text.find("/dev/shm has no room for"), std::string::npos) << outcome.text;
  }
}

std::string size_name(const ::testing::TestParamInfo<std::size_t>& info) {
  return fmt::format("{}KiB", info.param / kKiB);
}
INSTANTIATE_TEST_SUITE_P(Sizes, EnoughDevShm, ::testing::Values(64 * kMiB), size_name);
INSTANTIATE_TEST_SUITE_P(Sizes, ScarceDevShm, ::testing::Values(4 * kMiB), size_name);
INSTANTIATE_TEST_SUITE_P(Sizes, SmallDevShm, ::testing::Values(64 * kKiB, kMiB), size_name);

}  // namespace
}  // namespace tutti
