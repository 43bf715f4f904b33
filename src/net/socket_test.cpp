#include "net/socket.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

Deadline soon() { return Deadline::after(seconds(10)); }

std::pair<UniqueFd, UniqueFd> connected_pair(const std::string& host) {
  const UniqueFd listener = listen_tcp(host, 0);
  UniqueFd client = connect_tcp(host, local_address(listener.get()).port(), soon());
  UniqueFd server = accept_connection(listener.get(), soon());
  return {std::move(client), std::move(server)};
}

template <class Exception, class Call>
std::string text_of(Call call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception of another or any type";
  return {};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool has_ipv6() {
  try {
    (void)listen_tcp("::1", 0);
    return true;
  } catch (const SocketError&) {
    return false;
  }
}

TEST(Socket, CarriesBytesOverIpv4AndTellsBothAddresses) {
  auto [client, server] = connected_pair("127.0.0.1");
  write_full(client.get(), bytes_of("hello"), soon());
  std::string got(5, ' ');
  read_full(server.get(), std::as_writable_bytes(std::span(got)), soon());
  EXPECT_EQ(got, "hello");
  EXPECT_EQ(local_address(client.get()).text(), peer_address(server.get()).text());
  EXPECT_THAT(peer_address(client.get()).text(), testing::StartsWith("127.0.0.1:"));
  EXPECT_TRUE(peer_address(client.get()).is_loopback());
}

TEST(Socket, CarriesBytesOverIpv6WithBracketsInText) {
  if (!has_ipv6()) {
    GTEST_SKIP() << "no IPv6 loopback here";
  }
  auto [client, server] = connected_pair("::1");
  EXPECT_THAT(peer_address(client.get()).text(), testing::StartsWith("[::1]:"));
  EXPECT_TRUE(peer_address(client.get()).is_loopback());
}

TEST(Socket, MakesCloseOnExecNonBlockingDescriptors) {
  auto [client, server] = connected_pair("127.0.0.1");
  for (const int fd : {client.get(), server.get()}) {
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST(Socket, FC_G4_ListensOnlyOnTheAddressGiven) {
  const UniqueFd listener = listen_tcp("127.0.0.1", 0);
  EXPECT_EQ(local_address(listener.get()).host(), "127.0.0.1");
  const UniqueFd by_name = listen_tcp("localhost", 0);
  EXPECT_TRUE(local_address(by_name.get()).is_loopback());
}

TEST(Socket, FC_G6_NamesAddressPortErrnoAndOwnerOfAPortInUse) {
  const UniqueFd listener = listen_tcp("127.0.0.1", 0);
  const std::uint16_t port = local_address(listener.get()).port();
  try {
    (void)listen_tcp("127.0.0.1", port);
    FAIL() << "two listeners on one port";
  } catch (const SocketError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("in use"),
                      HasSubstr("EADDRINUSE"), HasSubstr("errno 98"),
                      HasSubstr("process " + std::to_string(::getpid()))));
    EXPECT_EQ(error.where().host, "127.0.0.1");
    EXPECT_EQ(error.where().port, port);
    EXPECT_EQ(error.where().code, EADDRINUSE);
  }
}

TEST(Socket, RefusesAnAddressOfAnotherHost) {
  EXPECT_THAT(text_of<SocketError>([] { (void)listen_tcp("192.0.2.1", 0); }),
              HasSubstr("address of this host"));
  EXPECT_THROW((void)listen_tcp("", 0), InvalidArgument);
}

TEST(Socket, FC_G2_ConnectKeepsTryingUntilTheDeadlineAndNamesTheCause) {
  std::uint16_t port = 0;
  {
    const UniqueFd listener = listen_tcp("127.0.0.1", 0);
    port = local_address(listener.get()).port();
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string text = text_of<Timeout>(
      [port] { (void)connect_tcp("127.0.0.1", port, Deadline::after(milliseconds(300))); });
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, milliseconds(290));
  EXPECT_LE(took, seconds(3));
  EXPECT_THAT(text, AllOf(HasSubstr("127.0.0.1"), HasSubstr("port " + std::to_string(port)),
                          HasSubstr("ECONNREFUSED")));
}

TEST(Socket, FC_G2_ConnectSucceedsWhenTheServerComesLater) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  const std::uint16_t port = local_address(listener.get()).port();
  listener.reset();
  std::thread late([&listener, port] {
    pause_for(milliseconds(200), soon());
    listener = listen_tcp("127.0.0.1", port);
  });
  EXPECT_TRUE(connect_tcp("127.0.0.1", port, soon()).valid());
  late.join();
}

TEST(Socket, NamesAHostThatCannotBeResolved) {
  EXPECT_THAT(text_of<Timeout>([] {
                (void)connect_tcp("no-such-host.invalid", 1, Deadline::after(milliseconds(50)));
              }),
              AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("cannot be resolved")));
}

TEST(Socket, ReadsReportAClosedPeerAndAnExpiredDeadline) {
  auto [client, server] = connected_pair("127.0.0.1");
  std::array<std::byte, 4> buffer{};
  EXPECT_THROW(read_full(client.get(), buffer, Deadline::after(milliseconds(20))), Timeout);
  server.reset();
  const int fd = client.get();  // clang 14 captures no structured binding
  EXPECT_THAT(text_of<PeerLost>([&] { read_full(fd, buffer, soon()); }),
              HasSubstr("closed by the peer"));
}

TEST(Socket, WritesToAPeerThatDoesNotReadEndAtTheDeadline) {
  auto [client, server] = connected_pair("127.0.0.1");
  const std::string much(std::size_t{32} << 20, 'x');
  EXPECT_THROW(write_full(client.get(), bytes_of(much), Deadline::after(milliseconds(100))),
               Timeout);
}

std::string unique_name(const std::string& what) {
  return "tutti-test-" + what + "-" + std::to_string(::getpid());
}

TEST(AbstractSocket, PassesDescriptorsWithAPayload) {
  const std::string name = unique_name("fds");
  const UniqueFd listener = listen_abstract(name);
  std::optional<UniqueFd> client = connect_abstract(name, soon());
  ASSERT_TRUE(client.has_value());
  const UniqueFd server = accept_connection(listener.get(), soon());
  EXPECT_EQ(peer_pid(server.get()), ::getpid());
  EXPECT_EQ(peer_uid(server.get()), ::getuid());

  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(::pipe(pipe_fds.data()), 0);
  UniqueFd read_end(pipe_fds[0]);
  UniqueFd write_end(pipe_fds[1]);
  send_fds(client->get(), pipe_fds, bytes_of("pair"), soon());
  std::string payload(4, ' ');
  std::vector<UniqueFd> got =
      recv_fds(server.get(), std::as_writable_bytes(std::span(payload)), soon());
  EXPECT_EQ(payload, "pair");
  ASSERT_EQ(got.size(), 2U);
  EXPECT_NE(::fcntl(got[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(got[1].get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(AbstractSocket, NobodyListeningIsAnOrdinaryResult) {
  EXPECT_FALSE(connect_abstract(unique_name("nobody"), soon()).has_value());
}

TEST(AbstractSocket, RefusesATakenOrOverlongName) {
  const std::string name = unique_name("taken");
  const UniqueFd first = listen_abstract(name);
  EXPECT_THROW((void)listen_abstract(name), SocketError);
  EXPECT_THROW((void)listen_abstract(std::string(108, 'n')), InvalidArgument);
}

TEST(AbstractSocket, RefusesTooManyDescriptors) {
  const std::string name = unique_name("many");
  const UniqueFd listener = listen_abstract(name);
  const std::optional<UniqueFd> client = connect_abstract(name, soon());
  const std::vector<int> many(65, 0);
  EXPECT_THROW(send_fds(client->get(), many, bytes_of("x"), soon()), InvalidArgument);
}

TEST(AbstractSocket, ReportsAPeerThatLeftWithoutSendingDescriptors) {
  const std::string name = unique_name("left");
  const UniqueFd listener = listen_abstract(name);
  std::optional<UniqueFd> client = connect_abstract(name, soon());
  const UniqueFd server = accept_connection(listener.get(), soon());
  client.reset();
  std::array<std::byte, 1> payload{};
  EXPECT_THROW((void)recv_fds(server.get(), payload, soon()), PeerLost);
}

}  // namespace
}  // namespace tutti
