// TcpLink over socket pairs of this process: partial transfers, end and reset, data before failure.
#include "transport/tcp_link.hpp"

#include "transport/transport.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tutti {
namespace {

struct SocketPair {
  UniqueFd first;
  UniqueFd second;
};

/// Two ends of a TCP connection over loopback.
SocketPair tcp_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), generic, length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), generic, &length), 0);
  SocketPair pair;
  pair.first.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(pair.first.get(), generic, length), 0);
  pair.second.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return pair;
}

std::size_t write_text(Link& link, const std::string& text) {
  const std::array<std::span<const std::byte>, 1> parts{std::as_bytes(std::span(text))};
  return link.write(parts);
}

std::string read_text(Link& link, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  for (int i = 0; i < 100000 && got < bytes && !link.failure(); ++i) {
    const std::array<std::span<std::byte>, 1> parts{
        std::as_writable_bytes(std::span(text)).subspan(got)};
    got += link.read(parts);
  }
  text.resize(got);
  return text;
}

TEST(TcpLink, NothingToReadIsNoFailure) {
  SocketPair pair = tcp_pair();
  TcpLink link(std::move(pair.first), "127.0.0.1:1");
  EXPECT_EQ(link.describe(), "tcp 127.0.0.1:1");
  std::array<std::byte, 8> buffer;
  const std::array<std::span<std::byte>, 1> parts{buffer};
  EXPECT_EQ(link.read(parts), 0U);
  EXPECT_FALSE(link.failure().has_value());
}

TEST(TcpLink, TakesAPrefixWhenTheSocketIsFull) {
  SocketPair pair = tcp_pair();
  TcpLink link(std::move(pair.first), "peer");
  const std::string text(std::size_t{32} << 20, 'a');
  const std::size_t taken = write_text(link, text);
  EXPECT_GT(taken, 0U);
  EXPECT_LT(taken, text.size());
  // The peer's kernel goes on taking for a moment; its buffers are bounded too.
  int writes = 0;
  while (write_text(link, text) != 0 && writes < 1000) {
    ++writes;
  }
  EXPECT_LT(writes, 1000);
  EXPECT_GT(link.undelivered(), 0U);
  EXPECT_FALSE(link.failure().has_value());
}

TEST(TcpLink, ReadsWhatHadArrivedBeforeItReportsTheEnd) {
  SocketPair pair = tcp_pair();
  TcpLink link(std::move(pair.first), "10.0.0.2:29501");
  {
    TcpLink peer(std::move(pair.second), "x");
    EXPECT_EQ(write_text(peer, "last words"), 10U);
  }
  EXPECT_FALSE(link.failure().has_value());
  EXPECT_EQ(read_text(link, 10), "last words");
  EXPECT_EQ(read_text(link, 1), "");
  const auto failure = link.failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ErrorKind::peer_lost);
  EXPECT_EQ(failure->text, "the peer closed the connection (tcp 10.0.0.2:29501)");
}

TEST(TcpLink, ResetNamesAddressAndErrno) {
  SocketPair pair = tcp_pair();
  TcpLink link(std::move(pair.first), "10.0.0.2:29501");
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(pair.second.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  pair.second.reset();
  for (int i = 0; i < 1000 && !link.failure(); ++i) {
    write_text(link, "x");
    read_text(link, 1);
  }
  const auto failure = link.failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ErrorKind::peer_lost);
  EXPECT_NE(failure->text.find("tcp 10.0.0.2:29501"), std::string::npos) << failure->text;
  EXPECT_NE(failure->text.find("errno"), std::string::npos) << failure->text;
}

/// Two transports over one TCP connection.
struct TcpWorld {
  TcpWorld() : first(0, 2, {}), second(1, 2, {}) {
    SocketPair pair = tcp_pair();
    first.add_link(1, std::make_unique<TcpLink>(std::move(pair.first), "b"));
    second.add_link(0, std::make_unique<TcpLink>(std::move(pair.second), "a"));
  }
  template <typename Op>
  bool run_until_done(const Op& op) {
    for (int i = 0; i < 1000000; ++i) {
      first.poll();
      second.poll();
      if (op.state.load(std::memory_order_acquire) != TransferState::active) {
        return op.state.load(std::memory_order_acquire) == TransferState::done;
      }
    }
    return false;
  }
  Transport first;
  Transport second;
};

TEST(TcpLink, CarriesMessagesBothWaysAtOnce) {
  TcpWorld world;
  constexpr std::size_t kBytes = std::size_t{5} << 20;
  std::vector<std::byte> a(kBytes, std::byte{1});
  std::vector<std::byte> b(kBytes, std::byte{2});
  std::vector<std::byte> into_a(kBytes);
  std::vector<std::byte> into_b(kBytes);
  SendOp send_a;
  send_a.peer = 1;
  send_a.data = a.data();
  send_a.bytes = kBytes;
  SendOp send_b;
  send_b.peer = 0;
  send_b.data = b.data();
  send_b.bytes = kBytes;
  RecvOp recv_a;
  recv_a.peer = 1;
  recv_a.data = into_a.data();
  recv_a.bytes = kBytes;
  RecvOp recv_b;
  recv_b.peer = 0;
  recv_b.data = into_b.data();
  recv_b.bytes = kBytes;
  world.first.send(send_a);
  world.second.send(send_b);
  world.first.recv(recv_a);
  world.second.recv(recv_b);
  EXPECT_TRUE(world.run_until_done(recv_a));
  EXPECT_TRUE(world.run_until_done(recv_b));
  EXPECT_EQ(into_a, b);
  EXPECT_EQ(into_b, a);
  EXPECT_GE(world.first.poll_fd(), 0);
}

TEST(TcpLink, LostConnectionEndsTheTransfersOfItsPeer) {
  auto world = std::make_unique<TcpWorld>();
  SocketPair pair = tcp_pair();
  Transport transport(0, 2, {});
  transport.add_link(1, std::make_unique<TcpLink>(std::move(pair.first), "10.1.1.1:5"));
  RecvOp recv;
  recv.peer = 1;
  transport.recv(recv);
  EXPECT_FALSE(transport.poll());
  pair.second.reset();
  for (int i = 0; i < 100000 && recv.state.load() == TransferState::active; ++i) {
    transport.poll();
  }
  EXPECT_EQ(recv.state.load(), TransferState::lost);
  ASSERT_TRUE(transport.failure(1).has_value());
  EXPECT_NE(transport.failure(1)->text.find("10.1.1.1:5"), std::string::npos);
  EXPECT_FALSE(transport.poll()) << "a dead socket must not keep the transport busy";
}

}  // namespace
}  // namespace tutti
