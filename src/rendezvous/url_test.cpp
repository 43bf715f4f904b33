#include "rendezvous/url.hpp"

#include "rendezvous/fake_environment.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(RendezvousUrl, SplitsIntoParts) {
  const RendezvousUrl url = parse_rendezvous_url("tcp://10.0.0.1:29500?rank=1&world_size=4");
  EXPECT_EQ(url.scheme, "tcp");
  EXPECT_EQ(url.rest, "10.0.0.1:29500");
  EXPECT_EQ(url.rank, 1);
  EXPECT_EQ(url.world_size, 4);
  const RendezvousUrl bare = parse_rendezvous_url("env://");
  EXPECT_EQ(bare.scheme, "env");
  EXPECT_EQ(bare.rest, "");
  EXPECT_EQ(bare.rank, -1);
  EXPECT_EQ(bare.world_size, -1);
  EXPECT_EQ(parse_rendezvous_url("file:///a/b c?world_size=2").rest, "/a/b c");
}

TEST(RendezvousUrl, RefusesWhatIsNoUrl) {
  for (const char* text : {"", "tcp", "tcp:/x", "://x", "/tmp/file"}) {
    EXPECT_THROW(parse_rendezvous_url(text), InvalidArgument) << text;
  }
}

TEST(RendezvousUrl, RefusesUnknownOptionsAndNonsenseNumbers) {
  EXPECT_EQ(text_of<InvalidArgument>([] { parse_rendezvous_url("env://?ranks=1"); }),
            "'env://?ranks=1' has the unknown option 'ranks=1'; known are rank and world_size, "
            "such as tcp://host:port?rank=0&world_size=4");
  EXPECT_EQ(text_of<InvalidArgument>([] { parse_rendezvous_url("env://?rank=-1"); }),
            "rank in 'env://?rank=-1' is '-1', expected an integer from 0 to 65535");
  EXPECT_THROW(parse_rendezvous_url("env://?rank"), InvalidArgument);
  EXPECT_THROW(parse_rendezvous_url("env://?world_size=0"), InvalidArgument);
}

TEST(RendezvousUrl, ReadsHostAndPort) {
  const auto parse = [](std::string_view text) { return parse_host_port(text, "tcp://x"); };
  EXPECT_EQ(parse("host:1").host, "host");
  EXPECT_EQ(parse("host:65535").port, 65535);
  EXPECT_EQ(parse("[::1]:29500").host, "::1");
  EXPECT_EQ(parse("[::1]:29500").port, 29500);
  for (const char* bad : {"host", ":1", "host:", "host:x", "host:65536", "::1:29500", "[::1]29500",
                          "[]:1", "host:0", ""}) {
    EXPECT_THROW(parse(bad), InvalidArgument) << bad;
  }
}

TEST(RendezvousUrl, ExplainsPortZero) {
  const std::string text = text_of<InvalidArgument>([] { parse_host_port("a:0", "tcp://a:0"); });
  EXPECT_NE(text.find("tcp://a:0"), std::string::npos) << text;
  EXPECT_NE(text.find("another one"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti
