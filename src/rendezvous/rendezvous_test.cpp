#include "rendezvous/rendezvous.hpp"

#include "rendezvous/fake_environment.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace tutti {
namespace {

namespace fs = std::filesystem;

class RendezvousFile : public ::testing::Test {
 protected:
  RendezvousFile() {
    std::string name = (fs::temp_directory_path() / "tutti-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~RendezvousFile() override { fs::remove_all(folder_); }
  std::string url(const std::string& query = "") const {
    return "file://" + (folder_ / "store").string() + query;
  }
  fs::path folder_{};
};

TEST_F(RendezvousFile, PrefersArgumentToUrlToEnvironment) {
  const EnvLookup lookup = fake_environment({{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  const auto from_environment = join_file({.url = url()}, lookup);
  EXPECT_EQ(from_environment.rank, 0);
  EXPECT_EQ(from_environment.world_size, 4);
  const auto from_url = join_file({.url = url("?rank=1")}, lookup);
  EXPECT_EQ(from_url.rank, 1);
  EXPECT_EQ(from_url.world_size, 4);
  const auto from_arguments = join_file({.url = url("?rank=1"), .rank = 2}, lookup);
  EXPECT_EQ(from_arguments.rank, 2);
  EXPECT_EQ(from_arguments.world_size, 4);
  from_url.store->set("key", "value");
  EXPECT_EQ(from_arguments.store->get("key"), "value");
}

TEST_F(RendezvousFile, ChecksTheSeatThatResultsFromAllSources) {
  const EnvLookup lookup = fake_environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(text_of<InvalidArgument>([&] { join_file({.url = url("?rank=2")}, lookup); }),
            "rank 2 (from the URL) is not in 0..1, as world size 2 (from WORLD_SIZE) demands");
  EXPECT_THROW(join_file({.url = url(), .rank = -2}, lookup), InvalidArgument);
}

TEST_F(RendezvousFile, MpirunOnOneHostMeetsInThePrivateFolder) {
  const EnvLookup lookup = fake_environment({{"OMPI_COMM_WORLD_RANK", "0"},
                                             {"OMPI_COMM_WORLD_SIZE", "2"},
                                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                             {"PMIX_NAMESPACE", "../we ird@1"},
                                             {"XDG_RUNTIME_DIR", folder_.string()}});
  const auto result = join_env({.url = "env://"}, lookup);
  result.store->set("key", "value");
  ASSERT_FALSE(fs::is_empty(folder_ / "tutti"));
  const fs::path file = fs::directory_iterator(folder_ / "tutti")->path();
  EXPECT_TRUE(file.filename().string().starts_with("mpi-job-.._we_ird@1")) << file;
  EXPECT_EQ(fs::status(folder_ / "tutti").permissions(), fs::perms::owner_all);
}

TEST_F(RendezvousFile, RefusesAFolderThatOthersMayWriteTo) {
  fs::create_directory(folder_ / "tutti");
  fs::permissions(folder_ / "tutti", fs::perms::all);
  const EnvLookup lookup = fake_environment({{"XDG_RUNTIME_DIR", folder_.string()}});
  EXPECT_THROW(rendezvous_folder(lookup), InvalidArgument);
}

TEST(Rendezvous, RankZeroServesTcpUnlessTheLauncherDoes) {
  TCPStoreOptions options{.port = 0, .is_server = true};
  const auto launcher = TCPStore::open(options);
  const std::string port = std::to_string(launcher->port());
  const EnvLookup lookup = fake_environment({{"RANK", "0"},
                                             {"WORLD_SIZE", "1"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", port},
                                             {"TUTTI_AGENT_STORE", "1"}});
  const auto by_env = join_env({.url = "env://"}, lookup);
  by_env.store->set("key", "value");
  EXPECT_EQ(launcher->get("key"), "value");
  const auto by_url = join_tcp({.url = "tcp://127.0.0.1:" + port}, lookup);
  EXPECT_EQ(by_url.store->get("key"), "value");
  // Another rank 0 that does not know of the launcher cannot serve on a port in use.
  EXPECT_ANY_THROW(join_tcp({.url = "tcp://127.0.0.1:" + port, .rank = 0, .world_size = 1},
                            fake_environment({})));
}

TEST(Rendezvous, NeedsNoNetworkForOneRank) {
  const auto result = join_env({.url = "env://", .rank = 0, .world_size = 1}, fake_environment({}));
  EXPECT_EQ(result.world_size, 1);
  EXPECT_EQ(result.store->add("count", 2), 2);
}

TEST(Rendezvous, RefusesTextAfterEnv) {
  EXPECT_THROW(join_env({.url = "env://x"}, fake_environment({})), InvalidArgument);
}

TEST(RendezvousRegistry, ListsSchemesWhenOneIsUnknown) {
  const RendezvousRegistry registry;
  EXPECT_EQ(text_of<InvalidArgument>([&] { (void)registry.join({.url = "etcd://a"}); }),
            "init_method 'etcd://a' has the unknown scheme 'etcd'; known are env, file, tcp");
}

TEST(RendezvousRegistry, CallsARegisteredHandler) {
  RendezvousRegistry registry;
  registry.add("mine", [](const RendezvousRequest& request) {
    EXPECT_EQ(request.url, "mine://x?y=z");
    return RendezvousResult{make_hash_store(), 1, 2};
  });
  EXPECT_EQ(registry.join({.url = "mine://x?y=z"}).rank, 1);
  EXPECT_THROW(registry.add("mine", [](const RendezvousRequest&) { return RendezvousResult{}; }),
               InvalidArgument);
  EXPECT_THROW(registry.add("tcp", [](const RendezvousRequest&) { return RendezvousResult{}; }),
               InvalidArgument);
  EXPECT_THROW(registry.add("", [](const RendezvousRequest&) { return RendezvousResult{}; }),
               InvalidArgument);
}

TEST(RendezvousRegistry, ChecksWhatAHandlerReturns) {
  RendezvousRegistry registry;
  registry.add("none", [](const RendezvousRequest&) { return RendezvousResult{nullptr, 0, 1}; });
  registry.add("far", [](const RendezvousRequest&) {
    return RendezvousResult{make_hash_store(), 3, 2};
  });
  EXPECT_THROW((void)registry.join({.url = "none://"}), InvalidArgument);
  EXPECT_THROW((void)registry.join({.url = "far://"}), InvalidArgument);
  EXPECT_THROW((void)registry.join({.url = "none://", .timeout = Store::Millis(0)}),
               InvalidArgument);
}

TEST(RendezvousRegistry, TheDefaultOneTakesHandlersToo) {
  register_rendezvous_handler("of-this-test", [](const RendezvousRequest&) {
    return RendezvousResult{make_hash_store(), 0, 1};
  });
  EXPECT_EQ(join_default({.url = "of-this-test://"}).world_size, 1);
}

}  // namespace
}  // namespace tutti
