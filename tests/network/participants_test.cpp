// One process too many: a rank that is taken and another world size are refused, however the ranks
// meet, and those already in are not disturbed.
#include "base/ensure.hpp"
#include "base/unique_fd.hpp"
#include "harness/process_ranks.hpp"
#include "network/reserved_port.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::ProcessRanks;
using testing::RankOutcome;
using testing::Reporter;

constexpr std::chrono::seconds kLimit{5};

/// Holds processes back until the test lets so many of them pass.
class Gate {
 public:
  Gate() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
  void let_pass(std::uint64_t count) const {
    ensure(::write(fd_.get(), &count, sizeof count) == sizeof count, "a gate opens");
  }
  void pass() const {
    std::uint64_t one = 0;
    ensure(::read(fd_.get(), &one, sizeof one) == sizeof one, "a gate can be passed");
  }

 private:
  UniqueFd fd_;
};

class Participants : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", std::to_string(port_.number()).c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Empty: the ranks are given a store.
  std::string init_method() const {
    if (GetParam() == "tcp") {
      return fmt::format("tcp://127.0.0.1:{}", port_.number());
    }
    if (GetParam() == "file") {
      return fmt::format("file://{}/store", folder_);
    }
    return GetParam() == "env" ? "env://" : "";
  }

 private:
  testing::ReservedPort port_{};
  std::string folder_ = "/tmp/participants-XXXXXX";
};

TEST_P(Participants, OneTooManyIsRefusedAndTheOthersGoOn_FC_G7) {
  const Gate late;
  const Gate end;
  const std::vector<int> in{0, 1};
  const std::vector<int> extra{2, 3};
  ProcessRanks ranks({.size = 4,
                      .init = {.init_method = init_method()},
                      .seats = {{0, 2}, {1, 2}, {1, 2}, {2, 3}},
                      .prepare =
                          [&late](int process) {
                            if (process >= 2) {
                              late.pass();
                            }
                          }},
                     [&end](Context& context, Reporter& reporter) {
                       reporter.note("in");
                       end.pass();
                       Group world = context.world();
                       const Tensor tensor = Tensor::full({1}, world.rank() + 1.0);
                       all_reduce(world, tensor);
                       return std::to_string(static_cast<int>(tensor.element(0).real()));
                     });
  ASSERT_TRUE(ranks.await_note(0, "in"));
  ASSERT_TRUE(ranks.await_note(1, "in"));
  const TimePoint start = std::chrono::steady_clock::now();
  late.let_pass(extra.size());
  const std::vector<RankOutcome> refused = ranks.wait(extra);
  for (const RankOutcome& outcome : refused) {
    EXPECT_EQ(outcome.how, RankOutcome::How::threw) << outcome.text;
    EXPECT_LT(outcome.ended - start, kLimit) << outcome.text;
  }
  // A file store counts its users before anybody has said which rank it is.
  const std::string cause = GetParam() == "file" ? "world size is 2" : "rank 1 of 2 is taken";
  EXPECT_NE(refused[0].text.find(cause), std::string::npos) << refused[0].text;
  EXPECT_NE(refused[1].text.find("world size 3"), std::string::npos) << refused[1].text;
  end.let_pass(in.size());
  for (const RankOutcome& outcome : ranks.wait(in)) {
    ASSERT_TRUE(outcome.returned()) << outcome.text;
    EXPECT_EQ(outcome.text, "3");
  }
}

INSTANTIATE_TEST_SUITE_P(Meeting, Participants, ::testing::Values("store", "tcp", "file", "env"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tutti
