// Which interfaces a job uses and needs: on networks of the test's own, whose addresses, names and
// unreachable interfaces are those of laptops and clusters.
#include "harness/namespaces.hpp"
#include "harness/process_ranks.hpp"
#include "harness/process_view.hpp"
#include "net/socket.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::Network;
using testing::ProcessRanksOptions;
using testing::RankOutcome;
using testing::Reporter;

constexpr int kPort = 29500;  // nobody else is on these networks
constexpr std::chrono::seconds kStartLimit{3};
constexpr std::chrono::seconds kErrorLimit{2};

/// "3 in 2 segments": the sum, and how much memory this rank shares.
std::string sum_of_ranks(Context& context, Reporter&) {
  Group world = context.world();
  const Tensor tensor = Tensor::full({1}, world.rank() + 1.0);
  all_reduce(world, tensor);
  return fmt::format("{} in {} segments", tensor.element(0).real(),
                     testing::mapped_segments().size());
}

struct Timed {
  std::vector<RankOutcome> outcomes{};
  TimePoint start{};
};

Timed run(const ProcessRanksOptions& options) {
  const TimePoint start = std::chrono::steady_clock::now();
  return {testing::run_process_ranks(options, sum_of_ranks), start};
}

void expect_sums(const Timed& timed, const std::string& text) {
  for (const RankOutcome& outcome : timed.outcomes) {
    EXPECT_TRUE(outcome.returned()) << testing::describe(-1, outcome);
    EXPECT_EQ(outcome.text, text);
    EXPECT_LT(outcome.ended - timed.start, kStartLimit);
  }
}

// ---- One host.

/// The transport is chosen by TUTTI_TRANSPORT.
class OneHost : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::enter_private_namespaces(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  static Timed run_from_environment() {
    return run({.size = 2, .init = {.init_method = "env://"}, .prepare = [](int rank) {
                  ::setenv("RANK", std::to_string(rank).c_str(), 1);
                  ::setenv("WORLD_SIZE", "2", 1);
                  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
                  ::setenv("MASTER_PORT", std::to_string(kPort).c_str(), 1);
                  ::setenv("TUTTI_TRANSPORT", GetParam().c_str(), 1);
                }});
  }
  static std::string expected() {
    return GetParam() == "tcp" ? "3 in 1 segments" : "3 in 2 segments";
  }
};

TEST_P(OneHost, NeedsNoNetworkButLoopback_FC_G8) {
  expect_sums(run_from_environment(), expected());
}

TEST_P(OneHost, IsNotLedAstrayByInterfacesThatLeadNowhere_FC_G8) {
  constexpr int kInterfaces = 18;
  for (int i = 1; i <= kInterfaces; ++i) {
    const std::string name = fmt::format("nowhere{}", i);
    // A bridge without ports leads nowhere as well.
    ASSERT_TRUE(testing::add_link("dummy", name) || testing::add_link("bridge", name));
    testing::set_up(name, fmt::format("10.77.{}.1", i));
  }
  expect_sums(run_from_environment(), expected());
}

INSTANTIATE_TEST_SUITE_P(Transports, OneHost, ::testing::Values("auto", "tcp"),
                         [](const auto& param) { return param.param; });

// ---- Two hosts, joined by a cable, whose name leads each only to itself.

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::enter_private_namespaces(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    testing::map_host_name("127.0.1.1");
    hosts_[0] = Network::create();
    hosts_[1] = Network::create();
    if (!testing::add_pair({.here = "cable1", .there = "cable0"}, *hosts_[0])) {
      GTEST_SKIP() << "this kernel has no virtual cables (veth)";
    }
    testing::set_up("cable1", "10.9.0.2");
    hosts_[0]->enter();
    testing::set_up("cable0", "10.9.0.1");
  }

  /// Rank i on host i; `interfaces` is TUTTI_SOCKET_IFNAME of each, empty as if not set.
  Timed run_on_both(const std::array<std::string, 2>& interfaces) const {
    return run({.size = 2,
                .init = {.init_method = fmt::format("tcp://10.9.0.1:{}", kPort)},
                .prepare = [this, &interfaces](int rank) {
                  hosts_[static_cast<std::size_t>(rank)]->enter();
                  const std::string& own = interfaces[static_cast<std::size_t>(rank)];
                  ::setenv("TUTTI_SOCKET_IFNAME", own.c_str(), 1);
                  if (own.empty()) {
                    ::unsetenv("TUTTI_SOCKET_IFNAME");
                  }
                }});
  }

 private:
  std::array<std::optional<Network>, 2> hosts_{};
};

TEST_F(TwoHosts, MeetWithoutAnyVariableThoughTheHostNameIsLoopback_FC_G5) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  std::string why;
  const std::vector<SocketAddress> addresses = resolve(name.data(), 0, why);
  ASSERT_FALSE(addresses.empty()) << why;
  ASSERT_EQ(addresses[0].host(), "127.0.1.1");
  expect_sums(run_on_both({}), "3 in 1 segments");
}

TEST_F(TwoHosts, TakeAnyInterfaceButTheExcluded_FC_G5) {
  expect_sums(run_on_both({"^lo", "^lo"}), "3 in 1 segments");
}

TEST_F(TwoHosts, TakeTheInterfaceNamedByItsBeginning_FC_G5) {
  expect_sums(run_on_both({"cable", "cable"}), "3 in 1 segments");
}

void expect_error(const RankOutcome& outcome, TimePoint start, const std::string& text) {
  EXPECT_EQ(outcome.how, RankOutcome::How::threw) << outcome.text;
  EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
  EXPECT_LT(outcome.ended - start, kErrorLimit) << outcome.text;
}

TEST_F(TwoHosts, NameAnInterfaceThatDoesNotExist_FC_G5) {
  const Timed timed = run_on_both({"nosuchif", "nosuchif"});
  for (const RankOutcome& outcome : timed.outcomes) {
    expect_error(outcome, timed.start, "TUTTI_SOCKET_IFNAME='nosuchif'");
  }
}

TEST_F(TwoHosts, LearnAtOnceWhyTheOtherCannotJoin_FC_G5) {
  for (const std::size_t lost : {0U, 1U}) {
    std::array<std::string, 2> interfaces{};
    interfaces[lost] = "nosuchif";
    const Timed timed = run_on_both(interfaces);
    expect_error(timed.outcomes[lost], timed.start, "TUTTI_SOCKET_IFNAME='nosuchif'");
    const RankOutcome& other = timed.outcomes[1 - lost];
    expect_error(other, timed.start,
                 fmt::format("rank {} cannot join: TUTTI_SOCKET_IFNAME='nosuchif'", lost));
    EXPECT_EQ(other.kind, ErrorKind::peer_lost);
    EXPECT_EQ(other.peer, static_cast<int>(lost));
  }
}

}  // namespace
}  // namespace tutti
