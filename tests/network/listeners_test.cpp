// Where the processes of a job listen: at the address that the store was given, and nowhere else.
#include "harness/process_ranks.hpp"
#include "harness/process_view.hpp"
#include "net/interface.hpp"
#include "network/reserved_port.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::ProcessRanks;
using testing::RankOutcome;
using testing::Reporter;

struct Place {
  std::string host{};
  std::string transport{};
  std::set<std::string> allowed{};

  friend std::ostream& operator<<(std::ostream& out, const Place& place) {
    return out << place.host << " " << place.transport;
  }
};

bool has_ipv6_loopback() {
  const std::vector<InterfaceAddress> addresses = interface_addresses();
  return std::any_of(addresses.begin(), addresses.end(),
                     [](const InterfaceAddress& entry) { return entry.address == "::1"; });
}

class Listeners : public ::testing::TestWithParam<Place> {};

/// The addresses on which this process listens once all have joined.
std::string list_listeners(Context& context, Reporter&) {
  Group world = context.world();
  barrier(world);
  return fmt::format("{}", fmt::join(testing::tcp_listeners(), " "));
}

TEST_P(Listeners, AreOnlyWhereTheStoreWasAskedToBe_FC_G4) {
  const Place& place = GetParam();
  if (place.host == "[::1]" && !has_ipv6_loopback()) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  const testing::ReservedPort port;
  const std::vector<RankOutcome> outcomes = testing::run_process_ranks(
      {.size = 2,
       .init = {.init_method = fmt::format("tcp://{}:{}", place.host, port.number()),
                .transport = place.transport}},
      list_listeners);
  ASSERT_TRUE(outcomes[0].returned()) << testing::describe(0, outcomes[0]);
  ASSERT_TRUE(outcomes[1].returned()) << testing::describe(1, outcomes[1]);
  EXPECT_TRUE(place.allowed.contains(outcomes[0].text)) << outcomes[0].text;  // the store's server
  EXPECT_EQ(outcomes[1].text, "");
}

INSTANTIATE_TEST_SUITE_P(Places, Listeners,
                         ::testing::Values(Place{"127.0.0.1", "auto", {"127.0.0.1"}},
                                           Place{"127.0.0.1", "tcp", {"127.0.0.1"}},
                                           Place{"[::1]", "auto", {"::1"}},
                                           Place{"[::1]", "tcp", {"::1"}},
                                           Place{"localhost", "tcp", {"127.0.0.1", "::1"}}),
                         [](const auto& param) {
                           const std::string& host = param.param.host;
                           return (host[0] == '['        ? "ipv6"
                                   : host == "localhost" ? "name"
                                                         : "ipv4") +
                                  std::string("_") + param.param.transport;
                         });

/// While ranks connect over TCP each has a listener for those above it. It is closed by the time
/// they have joined; what remains is the address it announced in the store.
TEST(Listeners, OfRanksAreOnTheAddressFromWhichTheyReachedTheStore_FC_G4) {
  ProcessRanks ranks({.size = 3, .init = {.transport = "tcp"}}, list_listeners);
  const std::vector<RankOutcome> outcomes = ranks.wait();
  std::vector<std::string> announced;
  for (const std::string& key : ranks.store().list_keys()) {
    if (key.find("/start/tcp/") != std::string::npos) {
      announced.push_back(ranks.store().get(key));
    }
  }
  ASSERT_EQ(announced.size(), 3U);
  EXPECT_EQ(announced[2], "none") << "there is no rank above the last one";
  announced.pop_back();
  for (const std::string& address : announced) {
    EXPECT_TRUE(address.starts_with("127.0.0.1:")) << address;
  }
  for (const RankOutcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.returned()) << testing::describe(0, outcome);
    EXPECT_EQ(outcome.text, "");
  }
}

}  // namespace
}  // namespace tutti
