// TCP: listening on one address, connecting with retries, whole reads and writes.
#include "net/socket.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr int kPollSliceMs = 60'000;  // poll(2) takes an int; longer waits go round again
constexpr Duration kFirstPause = milliseconds(5);
constexpr Duration kLongestPause = milliseconds(250);
// A host that answers nothing must not keep us from trying its other addresses.
constexpr Duration kOneAttempt = std::chrono::seconds(5);

TimePoint now() { return std::chrono::steady_clock::now(); }

UniqueFd tcp_socket(int family) {
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

void set_option(int fd, int level, int option, int value) {
  // Tuning only: a socket of another kind refuses, and works all the same.
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

void add_flag(int fd, int get, int set, int flag) {
  const int flags = ::fcntl(fd, get);
  if (flags >= 0) {
    (void)::fcntl(fd, set, flags | flag);
  }
}

/// Binds and listens; 0 or errno.
int bind_and_listen(int fd, const SocketAddress& address) {
  // Without it a restarted job would wait for old connections in TIME_WAIT. It does not let two
  // sockets listen on one port.
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) {
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr) != 0;
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  }
  if (::bind(fd, address.data(), address.length) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    return errno;
  }
  return 0;
}

std::string advice_for(int code, std::uint16_t port) {
  if (code == EADDRINUSE) {
    const std::string owner = listener_owner(port);
    return owner.empty() ? "; another process holds the port, choose another or 0 for any"
                         : fmt::format("; held by {}, choose another port or 0 for any", owner);
  }
  if (code == EADDRNOTAVAIL) {
    return "; give an address of this host";
  }
  if (code == EACCES) {
    return "; ports below 1024 need privileges";
  }
  return "";
}

/// One attempt at one address. The socket, or an invalid one and the errno in `code`.
UniqueFd try_connect(const SocketAddress& address, Deadline deadline, int& code) {
  UniqueFd fd = tcp_socket(address.family());
  if (!fd.valid()) {
    code = errno;
    return {};
  }
  if (::connect(fd.get(), address.data(), address.length) != 0) {
    code = errno;
    if (code != EINPROGRESS) {
      return {};
    }
    const Duration limit = std::min<Duration>(kOneAttempt, deadline.left(now()));
    if (!wait_for_fd(fd.get(), POLLOUT, Deadline(now(), limit))) {
      code = ETIMEDOUT;
      return {};
    }
    socklen_t length = sizeof(code);
    (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    if (code != 0) {
      return {};
    }
  }
  // With nobody listening on a port of the ephemeral range, the kernel may give our end that very
  // port and connect the socket to itself.
  if (local_address(fd.get()).text() == peer_address(fd.get()).text()) {
    code = ECONNREFUSED;
    return {};
  }
  set_nodelay(fd.get());
  return fd;
}

[[noreturn]] void lost(int fd, std::string_view cause) {
  throw PeerLost(fmt::format("connection to {}: {}", peer_address(fd).text(), cause));
}

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK; }

}  // namespace

void set_nodelay(int fd) { set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_nonblocking(int fd) { add_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK); }

void set_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) {
    (void)::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  }
}

void set_cloexec(int fd) { add_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC); }

void set_keepalive(int fd) {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool wait_for_fd(int fd, short events, Deadline deadline) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.left_ms(now(), kPollSliceMs));
    if (ready > 0) {
      return true;
    }
    if (deadline.passed(now())) {
      return false;
    }
  }
}

void pause_for(Duration limit, Deadline deadline) {
  const Deadline end(now(), std::min(limit, deadline.left(now())));
  while (!end.passed(now())) {
    (void)::poll(nullptr, 0, end.left_ms(now(), kPollSliceMs));
  }
}

UniqueFd listen_tcp(const std::string& host, std::uint16_t port) {
  std::string why;
  const std::vector<SocketAddress> addresses = resolve(host, port, why);
  if (addresses.empty()) {
    throw SocketError(fmt::format("cannot listen on {}: {}", join_host_port(host, port), why),
                      {.host = host, .port = port, .code = 0});
  }
  int code = 0;
  for (const SocketAddress& address : addresses) {
    UniqueFd fd = tcp_socket(address.family());
    code = fd.valid() ? bind_and_listen(fd.get(), address) : errno;
    if (code == 0) {
      return fd;
    }
    if (code == EADDRINUSE) {
      break;  // a client would find the other job's server at this address first
    }
  }
  throw SocketError(fmt::format("cannot listen on {}: {}, errno {}{}", join_host_port(host, port),
                                errno_text(code), code, advice_for(code, port)),
                    {.host = host, .port = port, .code = code});
}

UniqueFd connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline) {
  const TimePoint start = now();
  Duration pause = kFirstPause;
  Duration next_report = limits::kFirstStallReport;
  const auto seconds_since_start = [start] {
    return std::chrono::duration<double>(now() - start).count();
  };
  for (int attempts = 1;; ++attempts) {
    std::string why;
    for (const SocketAddress& address : resolve(host, port, why)) {
      int code = 0;
      UniqueFd fd = try_connect(address, deadline, code);
      if (fd.valid()) {
        return fd;
      }
      why = errno_text(code);
    }
    if (deadline.passed(now())) {
      throw Timeout(fmt::format(
          "cannot connect to host {} port {} within {:.1f} s ({} attempts): {}; check that the "
          "server runs there and that the address can be reached",
          host, port, seconds_since_start(), attempts, why));
    }
    if (now() - start >= next_report) {
      log_line(fmt::format("still connecting to {} after {:.0f} s: {}", join_host_port(host, port),
                           seconds_since_start(), why));
      next_report *= 2;
    }
    pause_for(pause, deadline);
    pause = std::min(pause * 3 / 2, kLongestPause);
  }
}

UniqueFd try_accept(int listener) {
  while (true) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      set_nodelay(fd.get());
      return fd;
    }
    if (errno != EINTR && errno != ECONNABORTED) {
      return {};
    }
  }
}

UniqueFd accept_connection(int listener, Deadline deadline) {
  while (true) {
    UniqueFd fd = try_accept(listener);
    if (fd.valid()) {
      return fd;
    }
    if (!would_block(errno)) {
      throw PeerLost(fmt::format("cannot accept on {}: {}", local_address(listener).text(),
                                 errno_text(errno)));
    }
    if (!wait_for_fd(listener, POLLIN, deadline)) {
      throw Timeout(fmt::format("nobody connected to {} in time", local_address(listener).text()));
    }
  }
}

std::size_t read_some(int fd, std::span<std::byte> target, Deadline deadline) {
  while (true) {
    const ssize_t got = ::recv(fd, target.data(), target.size(), MSG_DONTWAIT);
    if (got > 0) {
      return static_cast<std::size_t>(got);
    }
    if (got == 0) {
      lost(fd, "closed by the peer");
    }
    if (!would_block(errno) && errno != EINTR) {
      lost(fd, errno_text(errno));
    }
    if (would_block(errno) && !wait_for_fd(fd, POLLIN, deadline)) {
      throw Timeout(
          fmt::format("connection to {}: nothing arrived in time", peer_address(fd).text()));
    }
  }
}

void read_full(int fd, std::span<std::byte> target, Deadline deadline) {
  while (!target.empty()) {
    target = target.subspan(read_some(fd, target, deadline));
  }
}

void write_full(int fd, std::span<const std::byte> source, Deadline deadline) {
  std::size_t done = 0;
  while (done < source.size()) {
    const ssize_t sent =
        ::send(fd, source.data() + done, source.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
    } else if (would_block(errno)) {
      if (!wait_for_fd(fd, POLLOUT, deadline)) {
        throw Timeout(fmt::format("connection to {}: the peer took only {} of {} bytes in time",
                                  peer_address(fd).text(), done, source.size()));
      }
    } else if (errno != EINTR) {
      lost(fd, errno_text(errno));
    }
  }
}

}  // namespace tutti
