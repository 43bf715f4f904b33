#include "transport/tcp_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kMaxParts = 64;  // per system call; a longer list is a prefix, which is fine

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

TcpLink::TcpLink(UniqueFd socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
    fail("cannot be made non-blocking", errno);
  }
  const int on = 1;
  // Without it small messages would wait for the peer's acknowledgement. Refused by sockets that
  // are not TCP (tests use socket pairs), where it does not matter.
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

TcpLink::~TcpLink() {
  // Unread bytes would turn the close into a reset, which can destroy what is still on its way to
  // the peer.
  ::shutdown(socket_.get(), SHUT_WR);
  std::array<std::byte, 4096> scrap;
  for (int i = 0; i < 1024 && ::recv(socket_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT) > 0;
       ++i) {
  }
}

std::size_t TcpLink::write(std::span<const std::span<const std::byte>> parts) {
  if (write_error_ != 0 || failure_) {
    return 0;
  }
  std::array<iovec, kMaxParts> vectors;
  const std::size_t count = std::min(parts.size(), kMaxParts);
  for (std::size_t i = 0; i < count; ++i) {
    // sendmsg reads through a pointer to non-const; it does not write.
    vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return static_cast<std::size_t>(sent);
  }
  if (!would_block(errno)) {
    write_error_ = errno;
  }
  return 0;
}

std::size_t TcpLink::read(std::span<const std::span<std::byte>> parts) {
  if (failure_) {
    return 0;
  }
  std::array<iovec, kMaxParts> vectors;
  const std::size_t count = std::min(parts.size(), kMaxParts);
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {parts[i].data(), parts[i].size()};
  }
  ssize_t got = 0;
  do {
    got = ::readv(socket_.get(), vectors.data(), static_cast<int>(count));
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    return static_cast<std::size_t>(got);
  }
  if (got == 0) {
    if (write_error_ != 0) {
      fail("broke", write_error_);
    } else {
      failure_ = Failure{.kind = ErrorKind::peer_lost,
                         .text = fmt::format("the peer closed the connection ({})", describe())};
    }
  } else if (!would_block(errno)) {
    fail("broke", errno);
  } else if (write_error_ != 0) {
    fail("broke", write_error_);
  }
  return 0;
}

std::size_t TcpLink::undelivered() const {
  if (failure_ || write_error_ != 0) {
    return 0;
  }
  int unsent = 0;
  return ::ioctl(socket_.get(), SIOCOUTQ, &unsent) == 0 && unsent > 0
             ? static_cast<std::size_t>(unsent)
             : 0;
}

void TcpLink::fail(const char* what, int error) {
  failure_ = Failure{.kind = ErrorKind::peer_lost,
                     .text = fmt::format("the connection {} {}: {} (errno {})", describe(), what,
                                         std::generic_category().message(error), error)};
}

}  // namespace tutti
