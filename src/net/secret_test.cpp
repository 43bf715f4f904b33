#include "net/secret.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/socket.hpp"

#include <tutti/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <utility>

namespace tutti {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::pair<UniqueFd, UniqueFd> socket_pair() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

/// "" if the side accepted, else its error text.
std::string outcome(int fd, std::string_view secret, Role role) {
  try {
    authenticate(fd, secret, role, Deadline::after(seconds(10)));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::pair<std::string, std::string> outcomes(std::string_view server_secret,
                                             std::string_view client_secret) {
  auto [server, client] = socket_pair();
  auto served = std::async(std::launch::async, outcome, server.get(), server_secret, Role::server);
  std::string connected = outcome(client.get(), client_secret, Role::client);
  return {served.get(), std::move(connected)};
}

TEST(Secret, EqualSecretsAcceptEachOther) {
  EXPECT_EQ(outcomes("s3cret", "s3cret"), (std::pair<std::string, std::string>{}));
  EXPECT_EQ(outcomes("", ""), (std::pair<std::string, std::string>{}));
}

TEST(Secret, DifferentSecretsRefuseOnBothSides) {
  for (const auto& [server, client] :
       {std::pair("a", "b"), std::pair("a", ""), std::pair("", "b")}) {
    const auto [served, connected] = outcomes(server, client);
    EXPECT_THAT(served, HasSubstr("secrets differ"));
    EXPECT_THAT(connected, HasSubstr("secrets differ"));
  }
}

TEST(Secret, RefusesAStrangerAtItsFirstWrongByte) {
  auto [server, client] = socket_pair();
  const std::string request = "GET";
  write_full(client.get(), std::as_bytes(std::span(request)), Deadline::after(seconds(10)));
  EXPECT_THAT(outcome(server.get(), "", Role::server), HasSubstr("does not speak"));
}

TEST(Secret, NamesAnotherProtocolVersion) {
  Handshake server(Role::server, "");
  const std::array<std::byte, 7> hello = {std::byte{'T'}, std::byte{'U'}, std::byte{'T'},
                                          std::byte{'T'}, std::byte{'I'}, std::byte{0},
                                          std::byte{9}};
  server.feed(hello);
  EXPECT_EQ(server.state(), Handshake::State::refused);
  EXPECT_THAT(std::string(server.reason()), HasSubstr("version"));
}

void relay(Handshake& from, Handshake& to) {
  const auto bytes = from.take_output();
  for (std::size_t at = 0; at < bytes.size() && to.state() == Handshake::State::running; ++at) {
    to.feed(bytes.subspan(at, 1));
  }
}

TEST(Secret, ServerProvesNothingBeforeTheClientDid) {
  Handshake client(Role::client, "k");
  Handshake server(Role::server, "k");
  relay(client, server);
  EXPECT_EQ(server.take_output().size(), Handshake::kHelloBytes);
}

TEST(Secret, WorksByteByByte) {
  Handshake client(Role::client, "k");
  Handshake server(Role::server, "k");
  relay(client, server);
  relay(server, client);
  relay(client, server);
  relay(server, client);
  EXPECT_EQ(server.state(), Handshake::State::accepted);
  EXPECT_EQ(client.state(), Handshake::State::accepted);
}

TEST(Secret, AReflectedProofIsRefused) {
  // A server that does not know the secret sends the client's own proof back.
  Handshake client(Role::client, "k");
  (void)client.take_output();
  Handshake other(Role::server, "x");
  Handshake stranger(Role::client, "x");
  relay(stranger, other);
  relay(other, client);
  const auto proof = client.take_output();
  std::array<std::byte, Handshake::kVerdictBytes> verdict{};
  verdict[0] = std::byte{1};
  std::copy(proof.begin(), proof.end(), verdict.begin() + 1);
  client.feed(verdict);
  EXPECT_EQ(client.state(), Handshake::State::refused);
}

TEST(Secret, TokensAreHexadecimalAndDiffer) {
  const std::string first = random_token(16);
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, random_token(16));
}

/// Sets environment variables for one test.
class JobSecret : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override {
    clear();
    std::filesystem::remove(path_);
    set_log_sink({});
  }
  void use_file(const std::string& contents) {
    std::ofstream(path_, std::ios::binary) << contents;
    ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
    ::setenv("TUTTI_SECRET_FILE", path_.c_str(), 1);
  }
  const std::string path_ = testing::TempDir() + "tutti-secret-" + std::to_string(::getpid());

 private:
  static void clear() {
    ::unsetenv("TUTTI_SECRET");
    ::unsetenv("TUTTI_SECRET_FILE");
  }
};

TEST_F(JobSecret, IsEmptyWhenNothingIsSet) { EXPECT_EQ(job_secret(), ""); }

TEST_F(JobSecret, ComesFromTheFileWithoutItsFinalNewline) {
  use_file("from file\n");
  EXPECT_EQ(job_secret(), "from file");
}

TEST_F(JobSecret, TheVariableWinsOverTheFile) {
  use_file("from file");
  ::setenv("TUTTI_SECRET", "direct", 1);
  EXPECT_EQ(job_secret(), "direct");
}

TEST_F(JobSecret, MissingEmptyAndOverlongFilesAreErrors) {
  ::setenv("TUTTI_SECRET_FILE", "/nonexistent/secret", 1);
  EXPECT_THROW((void)job_secret(), InvalidArgument);
  use_file("\n");
  EXPECT_THROW((void)job_secret(), InvalidArgument);
  use_file(std::string(limits::kMaxSecretBytes + 1, 's'));
  EXPECT_THROW((void)job_secret(), InvalidArgument);
  use_file(std::string(limits::kMaxSecretBytes, 's'));
  EXPECT_EQ(job_secret().size(), limits::kMaxSecretBytes);
}

TEST_F(JobSecret, WarnsAboutAFileThatOthersCanRead) {
  use_file("open");
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  std::string line;
  set_log_sink([&line](std::string_view text) { line = text; });
  EXPECT_EQ(job_secret(), "open");
  EXPECT_THAT(line, HasSubstr("can be read by other users"));
}

}  // namespace
}  // namespace tutti
