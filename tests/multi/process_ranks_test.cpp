// The harness itself: what a test learns about ranks that return, throw, die or hang.
#include "harness/process_ranks.hpp"

#include <tutti/tutti.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>

namespace tutti::testing {
namespace {

using How = RankOutcome::How;

TEST(ProcessRanks, RunEachRankInAProcessOfItsOwnAndBringItsTextBack) {
  const auto outcomes = run_process_ranks({.size = 3}, [](Context& context, Reporter&) {
    Group world = context.world();
    const Tensor sum = Tensor::full({2}, world.rank() + 1.0, DType::i32);
    all_reduce(world, sum);
    return std::to_string(::getpid()) + " " + sum.to_string();
  });
  ASSERT_EQ(outcomes.size(), 3U);
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.returned()) << describe(0, outcome);
    EXPECT_NE(outcome.text.find("[6, 6]"), std::string::npos) << outcome.text;
  }
  EXPECT_NE(outcomes[0].text, outcomes[1].text);
}

TEST(ProcessRanks, TellWhatARankThrewAndHowFarItCame) {
  const auto outcomes =
      run_process_ranks({.size = 2}, [](Context& context, Reporter& reporter) -> std::string {
        reporter.note("started");
        if (context.world().rank() == 0) {
          throw PeerLost("made up", 1);
        }
        throw std::runtime_error("some text");
      });
  EXPECT_EQ(outcomes[0].how, How::threw);
  EXPECT_EQ(outcomes[0].kind, ErrorKind::peer_lost);
  EXPECT_EQ(outcomes[0].peer, 1);
  EXPECT_EQ(outcomes[0].text, "made up");
  EXPECT_EQ(outcomes[1].kind, std::nullopt);
  EXPECT_EQ(describe(1, outcomes[1]), "rank 1 threw: some text; last note: started");
}

TEST(ProcessRanks, NameTheSignalThatEndedARankWhileOthersGoOn) {
  ProcessRanks ranks({.size = 2}, [](Context& context, Reporter& reporter) -> std::string {
    if (context.world().rank() == 0) {
      return reporter.store().get("go");
    }
    reporter.note("waiting");
    reporter.store().get("never");
    return "";
  });
  ASSERT_TRUE(ranks.await_note(1, "waiting"));
  ranks.send_signal(1, SIGKILL);
  const std::array only{1};
  const auto killed = ranks.wait(only);
  EXPECT_EQ(killed[0].how, How::signalled);
  EXPECT_EQ(killed[0].status, SIGKILL);
  ranks.store().set("go", "on");
  const auto all = ranks.wait();
  EXPECT_TRUE(all[0].returned()) << describe(0, all[0]);
  EXPECT_EQ(all[0].text, "on");
}

TEST(ProcessRanks, KillRanksThatHangAtTheLimit) {
  const auto outcomes = run_process_ranks({.size = 2, .limit = std::chrono::seconds(3)},
                                          [](Context&, Reporter& reporter) -> std::string {
                                            reporter.note("stuck");
                                            return reporter.store().get("never");
                                          });
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.how, How::hang);
  }
}

}  // namespace
}  // namespace tutti::testing
