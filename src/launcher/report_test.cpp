#include "launcher/report.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti::launcher {
namespace {

RankEnd exited(int code) { return {.ended = true, .status = code << 8}; }
RankEnd killed_by(int signal) { return {.ended = true, .status = signal}; }
RankEnd later(RankEnd end) {
  end.after_stop = true;
  return end;
}

TEST(JobReport, IsSilentWhenAllIsWell) {
  const JobOutcome outcome{.ranks = {exited(0), exited(0)}};
  EXPECT_EQ(report(outcome), "");
  EXPECT_EQ(exit_status(outcome), 0);
}

TEST(JobReport, NamesWhoFailedFirstAndWhoWasStopped) {
  const JobOutcome outcome{.cause = Cause::rank_failed,
                           .first_rank = 1,
                           .ranks = {later(killed_by(SIGTERM)), exited(7)}};
  EXPECT_EQ(report(outcome),
            "rank 1 failed first: exit code 7; stopped by the launcher: rank 0 (SIGTERM, -15)");
  EXPECT_EQ(exit_status(outcome), 7);
}

TEST(JobReport, NamesSignals) {
  const JobOutcome outcome{
      .cause = Cause::rank_failed,
      .first_rank = 0,
      .ranks = {killed_by(SIGSEGV), later(killed_by(SIGTERM)), later(killed_by(SIGTERM)),
                later(exited(3)), exited(0), later(killed_by(SIGTERM))}};
  EXPECT_EQ(report(outcome),
            "rank 0 failed first: SIGSEGV, -11; failed as well: rank 3 (exit code 3); stopped by "
            "the launcher: ranks 1-2,5 (SIGTERM, -15); ended with 0: rank 4");
  EXPECT_EQ(exit_status(outcome), 139);
}

TEST(JobReport, DoesNotCallAKillFromOutsideAStop) {
  const JobOutcome outcome{.cause = Cause::rank_failed,
                           .first_rank = 0,
                           .ranks = {killed_by(SIGKILL), killed_by(SIGTERM)}};
  EXPECT_EQ(report(outcome),
            "rank 0 failed first: SIGKILL, -9; failed as well: rank 1 (SIGTERM, -15)");
}

TEST(JobReport, TellsOfSignalsToTheLauncher) {
  JobOutcome outcome{.cause = Cause::signal,
                     .signal = SIGINT,
                     .ranks = {later(killed_by(SIGINT)), later(killed_by(SIGINT))}};
  EXPECT_EQ(exit_status(outcome), 130);
  outcome.ranks = {later(exited(0)), later(exited(0))};
  EXPECT_EQ(exit_status(outcome), 0);
  outcome.ranks = {later(killed_by(SIGINT)), later(exited(9))};
  EXPECT_EQ(exit_status(outcome), 9);
  outcome.ranks = {later(exited(0)), later(killed_by(SIGKILL))};
  outcome.killed = true;
  EXPECT_EQ(exit_status(outcome), 130);
  EXPECT_EQ(report(outcome),
            "the launcher was told to stop by SIGINT; stopped by the launcher, after the grace "
            "period with SIGKILL: rank 1 (SIGKILL, -9); ended with 0: rank 0");
}

TEST(JobReport, TimeoutHasTheStatusOfTimeout1) {
  const JobOutcome outcome{.cause = Cause::timeout,
                           .timeout = std::chrono::milliseconds(1500),
                           .ranks = {later(killed_by(SIGTERM))}};
  EXPECT_EQ(exit_status(outcome), 124);
  EXPECT_EQ(report(outcome),
            "the job took longer than --timeout 1.5 s; stopped by the launcher: rank 0 (SIGTERM, "
            "-15)");
}

}  // namespace
}  // namespace tutti::launcher
