#include "launcher/worker_environment.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::launcher {
namespace {

using Lines = std::vector<std::string>;

bool has(const Lines& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

bool has_variable(const Lines& lines, const std::string& name) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.starts_with(name + "="); });
}

const JobFacts kJob{.ranks = 4, .port = 40123, .secret_file = "/f/secret", .job_id = "id"};

TEST(WorkerEnvironment, HoldsWhatIsPromised) {
  const Lines lines = worker_environment(Lines{"HOME=/root", "ODD==x=y"}, kJob, 2);
  for (const char* line :
       {"RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=0",
        "MASTER_ADDR=127.0.0.1", "MASTER_PORT=40123", "TUTTI_SECRET_FILE=/f/secret", "RANK_ID=2",
        "RANK_SIZE=4", "TUTTI_AGENT_STORE=1", "TUTTI_JOB_ID=id", "OMP_NUM_THREADS=1", "HOME=/root",
        "ODD==x=y"}) {
    EXPECT_TRUE(has(lines, line)) << line;
  }
}

TEST(WorkerEnvironment, ReplacesWhatAnotherLaunchLeft) {
  const Lines lines =
      worker_environment(Lines{"RANK=9", "TUTTI_SECRET=old", "TORCHELASTIC_RUN_ID=x"}, kJob, 0);
  EXPECT_TRUE(has(lines, "RANK=0"));
  EXPECT_FALSE(has(lines, "RANK=9"));
  EXPECT_FALSE(has_variable(lines, "TUTTI_SECRET"));
  EXPECT_FALSE(has_variable(lines, "TORCHELASTIC_RUN_ID"));
}

TEST(WorkerEnvironment, LeavesTheUsersChoices) {
  const Lines lines = worker_environment(Lines{"OMP_NUM_THREADS=8", "PYTHONUNBUFFERED=0"}, kJob, 0);
  EXPECT_TRUE(has(lines, "OMP_NUM_THREADS=8"));
  EXPECT_TRUE(has(lines, "PYTHONUNBUFFERED=0"));
  JobFacts alone = kJob;
  alone.ranks = 1;
  EXPECT_FALSE(has_variable(worker_environment(Lines{}, alone, 0), "OMP_NUM_THREADS"));
}

}  // namespace
}  // namespace tutti::launcher
