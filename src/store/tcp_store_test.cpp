// What only the TCP store does: addresses, secrets, workers, lost servers, hostile clients.
#include "net/secret.hpp"
#include "net/socket.hpp"
#include "store/protocol.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Keys = std::vector<std::string>;
constexpr char kSecret[] = "the job's secret";

Deadline soon() { return Deadline::after(seconds(30)); }

template <class Exception, class Call>
std::string text_of(Call call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return {};
}

std::shared_ptr<TCPStore> serve(TCPStoreOptions options = {}) {
  options.is_server = true;
  options.secret = kSecret;
  return TCPStore::open(options);
}

TCPStoreOptions client_options(const TCPStore& server) {
  return {.host = "127.0.0.1", .port = server.port(), .timeout = seconds(30), .secret = kSecret};
}

std::shared_ptr<TCPStore> join(const TCPStore& server) {
  return TCPStore::open(client_options(server));
}

std::uint16_t unused_port() { return local_address(listen_tcp("127.0.0.1", 0).get()).port(); }

/// Local addresses, in the kernel's hexadecimal, of everything that listens on `port`.
std::vector<std::string> listeners_on(std::uint16_t port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string slot;
      std::string local;
      std::string remote;
      std::string state;
      words >> slot >> local >> remote >> state;
      const std::size_t colon = local.find(':');
      if (state == "0A" && std::stoul(local.substr(colon + 1), nullptr, 16) == port) {
        found.push_back(local.substr(0, colon));
      }
    }
  }
  return found;
}

/// A client that knows the secret and then sends whatever it likes.
class RawClient {
 public:
  explicit RawClient(const TCPStore& server)
      : fd_(connect_tcp("127.0.0.1", server.port(), soon())) {
    authenticate(fd_.get(), kSecret, Role::client, soon());
  }
  void send(std::string_view bytes) {
    write_full(fd_.get(), std::as_bytes(std::span(bytes)), soon());
  }
  void send(WireWriter& frame) { send(std::string_view(frame.frame())); }
  bool is_closed_soon() {
    std::array<std::byte, 1024> buffer;
    try {
      while (true) {
        (void)read_some(fd_.get(), buffer, soon());
      }
    } catch (const PeerLost&) {
      return true;
    } catch (const Timeout&) {
      return false;
    }
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

TEST(TcpStore, FC_G2_ConnectingFailsAtTheTimeoutNamingHostPortAndCause) {
  const std::uint16_t port = unused_port();
  const auto start = std::chrono::steady_clock::now();
  const std::string text = text_of<StoreError>(
      [port] { (void)TCPStore::open({.port = port, .timeout = milliseconds(300)}); });
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(290));
  EXPECT_THAT(text, AllOf(HasSubstr("127.0.0.1"), HasSubstr("port " + std::to_string(port)),
                          HasSubstr("ECONNREFUSED")));
}

TEST(TcpStore, FC_G2_ConnectsToAServerThatStartsLater) {
  const std::uint16_t port = unused_port();
  auto client = std::async(std::launch::async, [port] {
    return TCPStore::open({.port = port, .timeout = seconds(20), .secret = kSecret});
  });
  pause_for(milliseconds(150), soon());
  const auto server = serve({.port = port});
  EXPECT_EQ(client.get()->port(), port);
}

TEST(TcpStore, FC_G4_ListensOnTheGivenAddressOnly) {
  const auto server = serve({.host = "127.0.0.1"});
  EXPECT_THAT(listeners_on(server->port()), Each(std::string("0100007F")));
  EXPECT_EQ(listeners_on(server->port()).size(), 1U);
}

TEST(TcpStore, FC_G6_PortInUseIsAnErrorWithTheFacts) {
  const UniqueFd holder = listen_tcp("127.0.0.1", 0);
  const std::uint16_t port = local_address(holder.get()).port();
  try {
    (void)serve({.port = port});
    FAIL() << "served on a port in use";
  } catch (const StoreAddressError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::store);
    EXPECT_EQ(error.where().host, "127.0.0.1");
    EXPECT_EQ(error.where().port, port);
    EXPECT_EQ(error.where().code, EADDRINUSE);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(std::to_string(port)), HasSubstr("in use"),
                                    HasSubstr("98"), HasSubstr("process ")));
  }
}

TEST(TcpStore, FC_G6_PortZeroPicksOneThatClientsCanUse) {
  const auto server = serve();
  EXPECT_GT(server->port(), 0);
  EXPECT_TRUE(server->is_server());
  const auto client = join(*server);
  EXPECT_FALSE(client->is_server());
  client->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
  EXPECT_EQ(client->local_address(), "127.0.0.1");
  EXPECT_EQ(client->describe(), "tcp://127.0.0.1:" + std::to_string(server->port()));
}

TEST(TcpStore, FC_G6_TakesOverAListeningSocket) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  const std::uint16_t port = local_address(listener.get()).port();
  const auto server = serve({.listen_fd = listener.release()});
  EXPECT_EQ(server->port(), port);
  join(*server)->set("k", "v");
}

TEST(TcpStore, RefusesADescriptorThatDoesNotListenAndOptionsThatMakeNoSense) {
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THROW((void)serve({.listen_fd = plain.get()}), InvalidArgument);
  EXPECT_THROW((void)TCPStore::open({.port = 0}), InvalidArgument);
  EXPECT_THROW((void)TCPStore::open({.port = 1, .listen_fd = 0}), InvalidArgument);
  EXPECT_THROW((void)serve({.world_size = 0}), InvalidArgument);
}

TEST(TcpStore, ServesOverIpv6) {
  std::shared_ptr<TCPStore> server;
  try {
    server = serve({.host = "::1"});
  } catch (const StoreAddressError&) {
    GTEST_SKIP() << "no IPv6 loopback here";
  }
  TCPStoreOptions options = client_options(*server);
  options.host = "::1";
  TCPStore::open(options)->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
  EXPECT_THAT(server->describe(), HasSubstr("[::1]:"));
}

TEST(TcpStore, AnyAddressIsServedOnRequest) {
  const auto server = serve({.host = "0.0.0.0"});
  join(*server)->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
}

TEST(TcpStore, TurnsAwayAClientWithAnotherSecret) {
  const auto server = serve();
  TCPStoreOptions options = client_options(*server);
  for (const char* wrong : {"", "guess"}) {
    options.secret = wrong;
    EXPECT_THAT(text_of<StoreError>([&] { (void)TCPStore::open(options); }),
                AllOf(HasSubstr("secrets differ"), HasSubstr(std::to_string(server->port()))));
  }
  join(*server)->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
}

TEST(TcpStore, NamesMissingKeysAndJoinedWorkersOnTimeout) {
  const auto server = serve({.world_size = 3});
  const auto client = join(*server);
  EXPECT_THAT(text_of<Timeout>([&] {
                client->wait(Keys{"a", "b"}, milliseconds(30));
              }),
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("2 of 3 workers joined"),
                    HasSubstr("127.0.0.1:" + std::to_string(server->port()))));
}

TEST(TcpStore, WaitsForAllWorkersOrTellsHowManyCame) {
  EXPECT_THAT(
      text_of<Timeout>([] {
        (void)serve({.world_size = 2, .wait_for_workers = true, .timeout = milliseconds(100)});
      }),
      HasSubstr("1 of 2 workers joined"));
  const std::uint16_t port = unused_port();
  auto server = std::async(std::launch::async, [port] {
    return serve({.port = port, .world_size = 2, .wait_for_workers = true});
  });
  const auto client =
      TCPStore::open({.port = port, .world_size = 2, .wait_for_workers = true, .secret = kSecret});
  EXPECT_EQ(server.get()->port(), port);
}

TEST(TcpStore, ClonesAreNotCountedAsWorkers) {
  const auto server = serve({.world_size = 2});
  const auto clone = server->clone();
  EXPECT_THAT(text_of<Timeout>([&] { clone->wait(Keys{"x"}, milliseconds(10)); }),
              HasSubstr("1 of 2 workers"));
}

TEST(TcpStore, ALostServerIsReportedAtOnceNamingItsAddress) {
  auto server = serve();
  const auto client = join(*server);
  const std::string address = "127.0.0.1:" + std::to_string(server->port());
  auto waiting = std::async(
      std::launch::async, [&] { return text_of<StoreError>([&] { (void)client->get("never"); }); });
  pause_for(milliseconds(30), soon());
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_THAT(waiting.get(), AllOf(HasSubstr(address), HasSubstr("the server is gone")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  EXPECT_THAT(text_of<StoreError>([&] { client->set("k", "v"); }), HasSubstr(address));
}

TEST(TcpStore, AnIdleServerStaysWhileACloneOfItLives) {
  auto server = serve();
  const auto clone = server->clone();
  server.reset();
  clone->set("k", "v");
  EXPECT_EQ(clone->get("k"), "v");
}

TEST(TcpStore, AForkedChildMustNotUseTheStoreAndDoesNotHoldIt) {
  auto server = serve();
  auto client = join(*server);
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  UniqueFd go_read(go[0]);
  UniqueFd go_write(go[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go_write.get());
    bool refused = false;
    try {
      client->set("k", "child");
    } catch (const StoreError&) {
      refused = true;
    }
    server.reset();  // must not wait for a thread that is not here
    char byte = 0;
    (void)!::read(go_read.get(), &byte, 1);
    ::_exit(refused ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  client->set("k", "parent");
  EXPECT_EQ(server->get("k"), "parent");
  server.reset();  // the child lives, yet the client sees the server go
  EXPECT_THROW(client->set("k", "v"), StoreError);
  go_write.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(TcpStore, AClientThatDiesInABarrierIsNotCounted) {
  const auto server = serve();
  {
    RawClient dying(*server);
    WireWriter frame(1, static_cast<std::uint8_t>(StoreOp::barrier));
    dying.send(frame.u64(60'000).text("b").u32(2));
  }
  // Until the server saw it go, a caller may still complete the round with it.
  std::string text;
  while (text.empty()) {
    try {
      server->barrier("b", 2, milliseconds(50));
    } catch (const Timeout& error) {
      text = error.what();
    }
  }
  EXPECT_THAT(text, HasSubstr("1 of 2"));
}

TEST(TcpStore, AStrangerIsClosedAtOnce) {
  const auto server = serve();
  const UniqueFd stranger = connect_tcp("127.0.0.1", server->port(), soon());
  const std::string request = "GET / HTTP/1.0\r\n\r\n";
  write_full(stranger.get(), std::as_bytes(std::span(request)), soon());
  std::array<std::byte, 64> buffer;
  EXPECT_THROW((void)read_some(stranger.get(), buffer, Deadline::after(seconds(5))), PeerLost);
}

TEST(TcpStore, MalformedFramesCostOnlyTheirSender) {
  const auto server = serve();
  const auto honest = join(*server);
  const std::string huge("\xff\xff\xff\xff", 4);
  const std::string empty(4, '\0');
  WireWriter unknown(1, 99);
  WireWriter trailing(1, static_cast<std::uint8_t>(StoreOp::num_keys));
  trailing.u64(1);
  WireWriter many(1, static_cast<std::uint8_t>(StoreOp::check));
  many.u32(0xffffffffU);
  WireWriter two(1, static_cast<std::uint8_t>(StoreOp::get));
  two.u64(1).u32(2).text("a").text("b");
  for (const std::string& bytes :
       {huge, empty, unknown.frame(), trailing.frame(), many.frame(), two.frame()}) {
    RawClient hostile(*server);
    hostile.send(bytes);
    EXPECT_TRUE(hostile.is_closed_soon());
  }
  honest->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
}

TEST(TcpStore, HalfAFrameBlocksNobody) {
  const auto server = serve();
  RawClient slow(*server);
  WireWriter frame(1, static_cast<std::uint8_t>(StoreOp::set));
  frame.text("slow").text("value");
  slow.send(std::string_view(frame.frame()).substr(0, 9));
  join(*server)->set("k", "v");
  EXPECT_EQ(server->get("k"), "v");
  slow.send(std::string_view(frame.frame()).substr(9));
  EXPECT_EQ(server->get("slow"), "value");
}

TEST(TcpStore, AClientThatReadsNothingBlocksNobody) {
  const auto server = serve();
  server->set("large", std::string(std::size_t{8} << 20, 'x'));
  RawClient deaf(*server);
  WireWriter frame(1, static_cast<std::uint8_t>(StoreOp::get));
  frame.u64(1000).u32(1).text("large");
  for (int i = 0; i < 1000; ++i) {
    deaf.send(frame);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(server->add("n", 1), i + 1);
  }
}

TEST(TcpStore, WakesManyWaitingClients) {
  constexpr std::size_t kClients = 200;
  const auto server = serve();
  std::vector<RawClient> clients;
  clients.reserve(kClients);
  WireWriter frame(7, static_cast<std::uint8_t>(StoreOp::get));
  frame.u64(60'000).u32(1).text("go");
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(*server);
    clients.back().send(frame);
  }
  server->set("go", "now");
  WireWriter expected(7, static_cast<std::uint8_t>(StoreStatus::ok));
  expected.text("now");
  for (RawClient& client : clients) {
    std::string reply(expected.frame().size(), '\0');
    read_full(client.fd(), std::as_writable_bytes(std::span(reply)), soon());
    EXPECT_EQ(reply, expected.frame());
  }
}

TEST(TcpStore, RefusesACallThatDoesNotFitAFrame) {
  const auto server = serve();
  const std::string value(std::size_t{40} << 20, 'x');
  EXPECT_THAT(text_of<InvalidArgument>([&] {
                server->multi_set(Keys{"a", "b"}, Keys{value, value});
              }),
              HasSubstr("split"));
  server->set("a", value);
  server->set("b", value);
  EXPECT_THAT(text_of<InvalidArgument>([&] {
                (void)server->multi_get(Keys{"a", "b"});
              }),
              HasSubstr("ask in parts"));
  EXPECT_EQ(server->get("b").size(), value.size());
}

TEST(TcpStore, ServerAndClientsComeAndGoWithoutLeaks) {
  for (int i = 0; i < 20; ++i) {
    const auto server = serve();
    const auto client = join(*server);
    client->queue_push("q", "x");
    EXPECT_EQ(server->queue_pop("q"), "x");
  }
}

}  // namespace
}  // namespace tutti
