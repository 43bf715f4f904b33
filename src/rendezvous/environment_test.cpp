#include "rendezvous/environment.hpp"

#include "rendezvous/fake_environment.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>

namespace tutti {
namespace {

StorePlace place(const EnvLookup& lookup) {
  return place_store(read_job_environment(lookup),
                     [] { return LaunchAncestry{.manager = "1-2", .parent = "3-4"}; });
}

std::string refusal(const EnvLookup& lookup) {
  return text_of<InvalidArgument>([&] { place(lookup); });
}

TEST(JobEnvironment, ReadsTuttiRunAndLetsItsLauncherServe) {
  const EnvLookup lookup = fake_environment({{"RANK", "0"},
                                             {"WORLD_SIZE", "4"},
                                             {"LOCAL_RANK", "0"},
                                             {"LOCAL_WORLD_SIZE", "4"},
                                             {"RANK_ID", "0"},
                                             {"RANK_SIZE", "4"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", "40123"},
                                             {"TUTTI_AGENT_STORE", "1"},
                                             {"TUTTI_JOB_ID", "abc"}});
  const JobEnvironment job = read_job_environment(lookup);
  EXPECT_EQ(job.launcher, "tutti run or torchrun");
  EXPECT_EQ(job.rank.value, 0);
  EXPECT_EQ(job.rank.from, "RANK");
  EXPECT_EQ(job.world_size.value, 4);
  EXPECT_EQ(job.local_world_size, 4);
  EXPECT_EQ(job.job_id, "abc");
  const StorePlace store = place(lookup);
  EXPECT_EQ(store.kind, StorePlace::Kind::tcp);
  EXPECT_EQ(store.host, "127.0.0.1");
  EXPECT_EQ(store.port, 40123);
  EXPECT_FALSE(store.serve);
}

TEST(JobEnvironment, ServesOnRankZeroOfAPlainEnvironment) {
  std::map<std::string, std::string, std::less<>> variables{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "hostA"}, {"MASTER_PORT", "29500"}};
  EXPECT_TRUE(place(fake_environment(variables)).serve);
  variables["RANK"] = "1";
  EXPECT_FALSE(place(fake_environment(variables)).serve);
}

TEST(JobEnvironment, StaysOffThePortOfTorchrunsStore) {
  std::map<std::string, std::string, std::less<>> variables{
      {"RANK", "0"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "hostA"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const StorePlace across_hosts = place(fake_environment(variables));
  EXPECT_EQ(across_hosts.kind, StorePlace::Kind::tcp);
  EXPECT_EQ(across_hosts.port, 29501);
  EXPECT_TRUE(across_hosts.serve);

  variables["LOCAL_WORLD_SIZE"] = "4";
  const StorePlace on_one_host = place(fake_environment(variables));
  EXPECT_EQ(on_one_host.kind, StorePlace::Kind::file);
  EXPECT_EQ(on_one_host.file_name, "torchrun-none.1-29500");
}

TEST(JobEnvironment, ReadsMsrunInBothSpellings) {
  const EnvLookup by_rank_id = fake_environment({{"RANK_ID", "1"},
                                                 {"RANK_SIZE", "2"},
                                                 {"MS_SCHED_HOST", "10.0.0.1"},
                                                 {"MS_SCHED_PORT", "8118"}});
  EXPECT_EQ(read_job_environment(by_rank_id).launcher, "msrun");
  EXPECT_EQ(place(by_rank_id).port, 8118);
  const EnvLookup by_node_id = fake_environment({{"MS_NODE_ID", "1"},
                                                 {"MS_WORKER_NUM", "2"},
                                                 {"MS_SCHED_HOST", "10.0.0.1"},
                                                 {"MS_SCHED_PORT", "8118"}});
  EXPECT_EQ(read_job_environment(by_node_id).rank.value, 1);
  EXPECT_EQ(place(by_node_id).host, "10.0.0.1");
}

TEST(JobEnvironment, MeetsInAFileUnderMpirunOnOneHost) {
  const StorePlace open_mpi = place(fake_environment({{"OMPI_COMM_WORLD_RANK", "2"},
                                                      {"OMPI_COMM_WORLD_SIZE", "3"},
                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                                      {"PMIX_NAMESPACE", "prterun-a-7@1"}}));
  EXPECT_EQ(open_mpi.kind, StorePlace::Kind::file);
  EXPECT_EQ(open_mpi.file_name, "mpi-job-prterun-a-7@1-of-1-2");
  const StorePlace mpich = place(fake_environment(
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}));
  EXPECT_EQ(mpich.kind, StorePlace::Kind::file);
  EXPECT_EQ(mpich.file_name, "mpi-of-1-2");
}

TEST(JobEnvironment, TheParentNamesAnMpiJobIfNothingElseDoes) {
  std::map<std::string, std::string, std::less<>> variables{
      {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  const auto name = [&variables] {
    const auto parent_only = [] { return LaunchAncestry{.parent = "3-4"}; };
    return place_store(read_job_environment(fake_environment(variables)), parent_only).file_name;
  };
  EXPECT_EQ(name(), "mpi-by-3-4");
  variables["PMI_JOBID"] = "j";
  EXPECT_EQ(name(), "mpi-job-j");
}

TEST(JobEnvironment, AsksForAnAddressUnderMpirunOnSeveralHosts) {
  const std::string text = refusal(fake_environment({{"OMPI_COMM_WORLD_RANK", "2"},
                                                     {"OMPI_COMM_WORLD_SIZE", "4"},
                                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_NE(text.find("rank 2 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("set MASTER_ADDR and MASTER_PORT"), std::string::npos) << text;
}

TEST(JobEnvironment, HonoursMasterAddressUnderEveryLauncher) {
  const StorePlace store = place(fake_environment({{"OMPI_COMM_WORLD_RANK", "0"},
                                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                   {"MASTER_ADDR", "hostB"},
                                                   {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(store.kind, StorePlace::Kind::tcp);
  EXPECT_EQ(store.host, "hostB");
  EXPECT_TRUE(store.serve);
}

TEST(JobEnvironment, FindsTheFirstHostAndAPortOfASlurmJob) {
  std::map<std::string, std::string, std::less<>> variables{
      {"SLURM_PROCID", "3"},       {"SLURM_NTASKS", "8"},
      {"SLURM_LOCALID", "1"},      {"SLURM_JOB_NODELIST", "node[03-07,10],gpu1"},
      {"SLURM_JOB_ID", "4711"},    {"SLURM_LAUNCH_NODE_IPADDR", "10.9.9.9"},
      {"SLURM_JOB_NUM_NODES", "4"}};
  const JobEnvironment job = read_job_environment(fake_environment(variables));
  EXPECT_EQ(job.launcher, "Slurm");
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_EQ(job.job_id, "4711.0");
  EXPECT_EQ(job.address, "node03");
  EXPECT_GE(job.port, 15000);
  EXPECT_LT(job.port, 30000);

  variables["SLURM_JOB_ID"] = "4712";
  EXPECT_NE(read_job_environment(fake_environment(variables)).port, job.port);
  variables["SLURM_JOB_NUM_NODES"] = "1";
  EXPECT_EQ(read_job_environment(fake_environment(variables)).address, "127.0.0.1");
  variables["SLURM_JOB_NUM_NODES"] = "4";
  variables["SLURM_JOB_NODELIST"] = "";
  EXPECT_EQ(read_job_environment(fake_environment(variables)).address, "10.9.9.9");
  variables["MASTER_PORT"] = "29500";
  EXPECT_EQ(read_job_environment(fake_environment(variables)).port, 29500);
}

TEST(JobEnvironment, PrefersTheInnerLauncher) {
  const JobEnvironment job = read_job_environment(fake_environment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                                    {"OMPI_COMM_WORLD_SIZE", "2"},
                                                                    {"SLURM_PROCID", "0"},
                                                                    {"SLURM_NTASKS", "64"}}));
  EXPECT_EQ(job.launcher, "Open MPI");
  EXPECT_EQ(job.rank.value, 1);
  EXPECT_EQ(job.world_size.value, 2);
}

TEST(JobEnvironment, KeepsWhatIsKnownAlready) {
  const EnvLookup lookup = fake_environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  const JobEnvironment job = read_job_environment(lookup, {5, "the argument"}, {8, "the URL"});
  EXPECT_EQ(job.rank.value, 5);
  EXPECT_EQ(job.world_size.value, 8);
  // Only the world size is in the environment, the rank was passed.
  EXPECT_EQ(read_job_environment(fake_environment({{"OMPI_COMM_WORLD_SIZE", "9"}}), {5, "x"})
                .world_size.value,
            9);
}

TEST(JobEnvironment, NamesTheVariableThatHoldsNonsense) {
  for (const std::string value : {"x", "-1", "1.5", "65536", "99999999999", " 1"}) {
    const std::string text = refusal(fake_environment({{"RANK", value}, {"WORLD_SIZE", "2"}}));
    EXPECT_EQ(text, "RANK is '" + value + "', expected an integer from 0 to 65535");
  }
  EXPECT_EQ(refusal(fake_environment({{"RANK", "0"}, {"WORLD_SIZE", "0"}})),
            "WORLD_SIZE is '0', expected an integer from 1 to 65536");
  EXPECT_EQ(
      refusal(fake_environment(
          {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}})),
      "MASTER_PORT is '70000', expected an integer from 1 to 65535");
}

TEST(JobEnvironment, RefusesARankOutsideOfTheWorld) {
  EXPECT_EQ(refusal(fake_environment({{"RANK", "4"}, {"WORLD_SIZE", "4"}})),
            "rank 4 (from RANK) is not in 0..3, as world size 4 (from WORLD_SIZE) demands");
}

TEST(JobEnvironment, ListsWhatWasLookedFor) {
  const std::string nothing = refusal(fake_environment({}));
  for (const LauncherVariables& row : launcher_table()) {
    EXPECT_NE(nothing.find(row.rank[0]), std::string::npos) << nothing;
  }
  EXPECT_NE(nothing.find("tutti run -n N"), std::string::npos) << nothing;
  const std::string half = refusal(fake_environment({{"PMI_RANK", "0"}}));
  EXPECT_NE(half.find("PMI_SIZE is not set"), std::string::npos) << half;
}

TEST(JobEnvironment, NeedsNoServerForOneRank) {
  EXPECT_EQ(place(fake_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}})).kind,
            StorePlace::Kind::process);
}

TEST(SlurmNodeList, GivesItsFirstHost) {
  EXPECT_EQ(first_slurm_host("a"), "a");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("n[003-007,010],gpu1"), "n003");
  EXPECT_EQ(first_slurm_host("rack[2,4]node[7-9]-ib,x"), "rack2node7-ib");
  EXPECT_EQ(first_slurm_host("login,n[1-2]"), "login");
  EXPECT_EQ(first_slurm_host(""), "");
}

TEST(LaunchAncestry, IsTheSameWhenAskedTwice) {
  EXPECT_FALSE(launch_ancestry().parent.empty());
  EXPECT_EQ(launch_ancestry().parent, launch_ancestry().parent);
}

}  // namespace
}  // namespace tutti
