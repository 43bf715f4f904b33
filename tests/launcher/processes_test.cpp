// The launcher and the processes of its jobs: nobody outlives it, signals arrive, exit statuses and
// the root cause are told. FC-L1, FC-L2, FC-L3.
#include "launcher/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

namespace tutti::test {
namespace {

using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Rank 0 starts a tree: a child with a grandchild, and a grandchild in a session of its own.
const std::string kTree =
    "sh -c 'sleep 1000 & wait' & setsid sh -c 'sleep 1000 & exit 0'; echo ready; wait; sleep 60";

std::vector<std::string> two_ranks(const std::string& zero, const std::string& one,
                                   std::vector<std::string> options = {}) {
  options.insert(options.end(), {"-n", "2", "--", "sh", "-c",
                                 fmt::format("if [ $RANK = 0 ]; then {}; else {}; fi", zero, one)});
  return options;
}

TEST(Launcher, FC_L1_GrandchildrenEndWhenARankFails) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "go").c_str(), 0600), 0);
  Launch launch(two_ranks(fmt::format("(echo go > {0}) & {1}", folder / "go", kTree),
                          fmt::format("read x < {}; exit 3", folder / "go"),
                          {"--shutdown-timeout", "2"}));
  EXPECT_EQ(launch.wait(), 3);
  EXPECT_TRUE(no_process_left(seconds(0)));
  EXPECT_TRUE(contains(launch.error(), "rank 1 failed first: exit code 3")) << launch.error();
  EXPECT_TRUE(launch.leftovers().empty());
}

TEST(Launcher, FC_L1_GrandchildrenEndOnSigint) {
  Launch launch(two_ranks(kTree, "sleep 1000", {"--shutdown-timeout", "2"}));
  ASSERT_TRUE(launch.wait_for_output("ready"));
  launch.signal(SIGINT);
  EXPECT_TRUE(launch.ends_within(seconds(10)));
  EXPECT_EQ(launch.wait(), 130);
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(Launcher, FC_L1_NoOrphanAfterSuccess) {
  Launch launch({"-n", "2", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"});
  EXPECT_EQ(launch.wait(), 0);
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(Launcher, KillsWhatIgnoresSigterm) {
  Launch launch({"-n", "2", "--shutdown-timeout", "0.2", "sh", "-c",
                 "trap '' TERM INT; echo ready; while :; do sleep 1000; done"});
  ASSERT_TRUE(launch.wait_for_output("[0] ready"));
  ASSERT_TRUE(launch.wait_for_output("[1] ready"));
  launch.signal(SIGTERM);
  EXPECT_EQ(launch.wait(), 143);
  EXPECT_TRUE(contains(launch.error(), "after the grace period with SIGKILL: ranks 0-1"))
      << launch.error();
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(Launcher, LeavesNothingBehindWhenItIsKilled) {
  Launch launch(two_ranks(kTree, "trap '' TERM INT HUP; sleep 1000; sleep 1000"));
  ASSERT_TRUE(launch.wait_for_output("ready"));
  EXPECT_EQ(launch.leftovers().size(), 1U);
  launch.signal(SIGKILL);
  EXPECT_EQ(launch.wait(), 137);
  EXPECT_TRUE(no_process_left(seconds(10)));
  EXPECT_TRUE(launch.leftovers().empty()) << launch.leftovers().front();
}

TEST(Launcher, LeavesNothingBehindWhenItsProcessGroupIsKilled) {
  Launch launch(two_ranks(kTree, "sleep 1000"));
  ASSERT_TRUE(launch.wait_for_output("ready"));
  ::kill(-launch.pid(), SIGKILL);
  EXPECT_EQ(launch.wait(), 137);
  EXPECT_TRUE(no_process_left(seconds(10)));
}

TEST(Launcher, EndsTheJobWhenItsKeeperIsKilled) {
  Launch launch(two_ranks("echo keeper=$PPID.; " + kTree, "sleep 1000"));
  ASSERT_TRUE(launch.wait_for_output("ready"));
  const std::size_t at = launch.output().find("keeper=") + 7;
  ::kill(std::stoi(launch.output().substr(at)), SIGKILL);
  EXPECT_EQ(launch.wait(), 137);
  EXPECT_TRUE(contains(launch.error(), "keeper process was killed")) << launch.error();
  EXPECT_TRUE(no_process_left(seconds(0)));
  EXPECT_TRUE(launch.leftovers().empty());
}

TEST(Launcher, FC_L2_ForwardsUserSignalsAndGoesOn) {
  for (const int number : {SIGUSR1, SIGUSR2}) {
    Launch launch({"-n", "2", "sh", "-c",
                   "trap 'echo GOT$RANK; exit 0' USR1 USR2; sleep 1000 & echo ready$RANK; wait"});
    ASSERT_TRUE(launch.wait_for_output("ready0"));
    ASSERT_TRUE(launch.wait_for_output("ready1"));
    launch.signal(number);
    EXPECT_EQ(launch.wait(), 0);
    EXPECT_TRUE(contains(launch.output(), "[0] GOT0\n"));
    EXPECT_TRUE(contains(launch.output(), "[1] GOT1\n"));
    EXPECT_EQ(launch.error(), "");
    EXPECT_TRUE(no_process_left(seconds(0)));
  }
}

TEST(Launcher, ForwardsStopSignalsAsTheyAre) {
  for (const auto& [number, name] : {std::pair{SIGHUP, "HUP"}, std::pair{SIGTERM, "TERM"},
                                     std::pair{SIGQUIT, "QUIT"}, std::pair{SIGINT, "INT"}}) {
    Launch launch({"-n", "1", "sh", "-c",
                   fmt::format("trap 'echo GOT; exit 0' {}; sleep 1000 & echo ready; wait", name)});
    ASSERT_TRUE(launch.wait_for_output("ready"));
    launch.signal(number);
    EXPECT_EQ(launch.wait(), 0) << name;
    EXPECT_TRUE(contains(launch.output(), "[0] GOT\n")) << name;
  }
}

TEST(Launcher, FC_L3_ZeroOnlyIfEveryRankEndedWithZero) {
  Launch well({"-n", "2", "true"});
  EXPECT_EQ(well.wait(), 0);
  EXPECT_EQ(well.error(), "");

  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "go").c_str(), 0600), 0);
  Launch late(two_ranks(fmt::format("echo > {}; exit 0", folder / "go"),
                        fmt::format("read x < {}; sleep 0.2; exit 7", folder / "go")));
  EXPECT_EQ(late.wait(), 7);
  EXPECT_EQ(late.error(), "tutti run: rank 1 failed first: exit code 7; ended with 0: rank 0\n");
}

TEST(Launcher, FC_L3_ReportsSignalsAndWhoWasStopped) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "go").c_str(), 0600), 0);
  Launch launch(two_ranks(fmt::format("echo > {}; exec sleep 60", folder / "go"),
                          fmt::format("ulimit -c 0; read x < {}; kill -SEGV $$", folder / "go")));
  EXPECT_EQ(launch.wait(), 139);
  EXPECT_EQ(launch.error(),
            "tutti run: rank 1 failed first: SIGSEGV, -11; stopped by the launcher: rank 0 "
            "(SIGTERM, -15)\n");
}

TEST(Launcher, StopsAJobThatTakesTooLong) {
  Launch launch({"-n", "2", "--timeout", "0.3", "sleep", "1000"});
  EXPECT_EQ(launch.wait(), 124);
  EXPECT_TRUE(contains(launch.error(), "--timeout 0.3 s")) << launch.error();
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(Launcher, ReachesEverybodyWithCtrlC) {
  int terminal = -1;
  const pid_t session = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(session, 0);
  if (session == 0) {
    ::execl(TUTTI_COMMAND, "tutti", "run", "-n", "2", "sh", "-c", "echo ready; sleep 1000",
            static_cast<char*>(nullptr));
    ::_exit(99);
  }
  std::string seen;
  char chunk[256];
  for (std::size_t ready = 0; ready < 2;) {
    const ssize_t count = ::read(terminal, chunk, sizeof(chunk));
    ASSERT_GT(count, 0);
    seen.append(chunk, static_cast<std::size_t>(count));
    ready = contains(seen, "[0] ready") + contains(seen, "[1] ready");
  }
  ASSERT_EQ(::write(terminal, "\x03", 1), 1);
  while (::read(terminal, chunk, sizeof(chunk)) > 0) {
  }
  EXPECT_TRUE(no_process_left(seconds(10)));
  ::close(terminal);
}

TEST(Launcher, SaysWhatIsWrongWithTheProgram) {
  Launch missing({"-n", "2", "no-such-program"});
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_EQ(missing.error(), "tutti run: program 'no-such-program' is not in PATH\n");
  Launch folder({"-n", "2", "/tmp/"});
  EXPECT_EQ(folder.wait(), 126);
}

TEST(Launcher, RefusesWhatThisReleaseCannotDo) {
  for (const auto& [flag, value] :
       {std::pair{"--nnodes", "2"}, std::pair{"--node-rank", "1"},
        std::pair{"--master-addr", "10.0.0.1"}, std::pair{"--max-restarts", "1"}}) {
    Launch launch({"-n", "1", flag, value, "true"});
    EXPECT_EQ(launch.wait(), 2) << flag;
    EXPECT_TRUE(contains(launch.error(), fmt::format("not supported: {} {}", flag, value)))
        << launch.error();
  }
}

}  // namespace
}  // namespace tutti::test
