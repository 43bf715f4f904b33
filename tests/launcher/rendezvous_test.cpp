// Ranks of `tutti run` find each other: environment, secret, the store that the launcher serves.
// FC-L4 and, across processes, FC-G7.
#include "launcher/launch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

namespace tutti::test {
namespace {

using std::chrono::seconds;

TEST(LauncherRendezvous, FC_L4_TenJobsAtOnceDoNotDisturbEachOther) {
  std::vector<std::unique_ptr<Launch>> jobs;
  for (int i = 0; i < 10; ++i) {
    jobs.push_back(std::make_unique<Launch>(std::vector<std::string>{"-n", "2", TUTTI_WORKER}));
  }
  for (const auto& job : jobs) {
    EXPECT_EQ(job->wait(), 0) << job->error();
    auto lines = lines_of(job->output());
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines, (std::vector<std::string>{"[0] sum=3", "[1] sum=3"})) << job->error();
  }
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(LauncherRendezvous, ManyRanksMeet) {
  Launch launch({"-n", "16", TUTTI_WORKER});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
  const auto lines = lines_of(launch.output());
  EXPECT_EQ(lines.size(), 16U);
  EXPECT_TRUE(std::all_of(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.ends_with("sum=136"); }));
}

TEST(LauncherRendezvous, AProgramMayJoinAgainInANewProcess) {
  Launch launch({"-n", "2", "sh", "-c", fmt::format("{0} && {0}", TUTTI_WORKER)});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
}

TEST(LauncherRendezvous, FC_G7_RefusesASecondProcessWithTheSameRank) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "in").c_str(), 0600), 0);
  // Rank 0 first comes as rank 1 too, while rank 1 is in and waits for rank 0.
  Launch launch({"-n", "2", "sh", "-c",
                 fmt::format("if [ $RANK = 1 ]; then exec {0} {1}; fi; read x < {1}; RANK=1 {0}; "
                             "[ $? = 1 ] || exit 5; exec {0}",
                             TUTTI_WORKER, folder / "in")});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
  EXPECT_NE(launch.error().find("rank 1 of 2 is taken"), std::string::npos) << launch.error();
  EXPECT_NE(launch.output().find("[1] sum=3"), std::string::npos) << launch.output();
}

TEST(LauncherRendezvous, FC_G7_RefusesAnotherWorldSize) {
  Launch launch({"-n", "2", "sh", "-c",
                 fmt::format("if [ $RANK = 1 ]; then exec {0}; fi; {0}; RANK=2 WORLD_SIZE=3 {0} || "
                             "exit 0; exit 5",
                             TUTTI_WORKER)});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
  EXPECT_NE(launch.error().find("world size 3"), std::string::npos) << launch.error();
}

TEST(LauncherRendezvous, NobodyJoinsWithoutTheSecret) {
  Launch launch({"-n", "1", "sh", "-c",
                 fmt::format("TUTTI_SECRET=wrong timeout 20 {} && exit 5; exit 0", TUTTI_WORKER)});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
  EXPECT_EQ(launch.output(), "");
}

TEST(LauncherRendezvous, TellsRanksWhereTheyAre) {
  Launch launch(
      {"-n", "2", "--prefix", "", "sh", "-c",
       "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
       "$RANK_ID $RANK_SIZE $OMP_NUM_THREADS $TUTTI_AGENT_STORE; [ $MASTER_PORT -gt 0 ] && "
       "[ $(stat -c %a $TUTTI_SECRET_FILE) = 600 ]"});
  EXPECT_EQ(launch.wait(), 0) << launch.error();
  auto lines = lines_of(launch.output());
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{"0 2 0 2 0 127.0.0.1 0 2 1 1",
                                             "1 2 1 2 0 127.0.0.1 1 2 1 1"}));
}

}  // namespace
}  // namespace tutti::test
