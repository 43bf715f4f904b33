#include "net/interface.hpp"

#include <tutti/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<InterfaceAddress>& host() {
  static const std::vector<InterfaceAddress> addresses = {
      {.interface = "lo", .address = "127.0.0.1", .is_loopback = true},
      {.interface = "lo", .address = "::1", .is_loopback = true},
      {.interface = "docker0", .address = "172.17.0.1"},
      {.interface = "eth1", .address = "fe80::1%eth1", .is_link_local = true},
      {.interface = "eth1", .address = "2001:db8::5"},
      {.interface = "eth1", .address = "10.1.0.5"},
      {.interface = "eth10", .address = "10.10.0.5"},
  };
  return addresses;
}

std::string chosen(std::string_view spec, std::string_view preferred = {}) {
  return choose_address(spec, preferred, host()).address;
}

TEST(Interface, FC_G5_TakesANameExactlyBeforeByItsBeginning) {
  EXPECT_EQ(chosen("eth1"), "10.1.0.5");
  EXPECT_EQ(chosen("eth10"), "10.10.0.5");
  EXPECT_EQ(chosen("docker"), "172.17.0.1");
}

TEST(Interface, FC_G5_TakesTheFirstOfAListThatExists) {
  EXPECT_EQ(chosen("ib0,eth10,eth1"), "10.10.0.5");
}

TEST(Interface, FC_G5_ExclusionPrefersRoutableIpv4) {
  EXPECT_EQ(chosen("^lo,docker"), "10.1.0.5");
  EXPECT_EQ(chosen("^docker,eth"), "127.0.0.1");
}

TEST(Interface, FC_G5_WithoutAChoiceTakesThePreferredOrTheBest) {
  EXPECT_EQ(chosen("", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(chosen(""), "172.17.0.1");
}

TEST(Interface, FC_G5_TakesALiteralAddress) {
  EXPECT_EQ(chosen("10.1.0.5"), "10.1.0.5");
  EXPECT_EQ(chosen("fe80::1%eth1"), "fe80::1%eth1");
}

TEST(Interface, FC_G5_PrefersTheAddressKnownToWorkIfAllowed) {
  EXPECT_EQ(chosen("^lo", "10.10.0.5"), "10.10.0.5");
  EXPECT_EQ(chosen("^lo", "127.0.0.1"), "172.17.0.1");
}

TEST(Interface, FC_G5_NamesWhatDoesNotExistAndListsWhatDoes) {
  try {
    (void)chosen("nosuchif");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("nosuchif"), HasSubstr("eth1 (10.1.0.5)"),
                                    HasSubstr("lo (127.0.0.1)")));
  }
  EXPECT_THROW((void)chosen("^lo,docker,eth"), InvalidArgument);
  EXPECT_THROW((void)chosen("10.9.9.9"), InvalidArgument);
}

TEST(Interface, FindsTheLoopbackOfThisHost) {
  EXPECT_TRUE(local_address_for("127.0.0.1").is_loopback);
}

}  // namespace
}  // namespace tutti
