// Abstract Unix sockets and the passing of descriptors.
#include "base/limits.hpp"
#include "net/socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(limits::kMaxPassedFds * sizeof(int));
using ControlBuffer = std::array<char, kControlBytes>;

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UnixAddress abstract_address(const std::string& name) {
  UnixAddress result;
  if (name.empty() || name.size() > sizeof(result.address.sun_path) - 1) {
    throw InvalidArgument(fmt::format("abstract socket name of {} bytes, expected 1 to {}",
                                      name.size(), sizeof(result.address.sun_path) - 1));
  }
  result.address.sun_family = AF_UNIX;
  // sun_path[0] stays NUL: that makes the name abstract. The length is part of the name.
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

UniqueFd unix_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    throw SocketError(fmt::format("cannot make a local socket: {}", errno_text(errno)),
                      {.code = errno});
  }
  return fd;
}

ucred peer_credentials(int fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    throw PeerLost(fmt::format("cannot ask who is at the other end: {}", errno_text(errno)));
  }
  return credentials;
}

/// Takes the descriptors out of a received message.
void collect_fds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr;
       entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

}  // namespace

UniqueFd listen_abstract(const std::string& name) {
  const UnixAddress address = abstract_address(name);
  UniqueFd fd = unix_socket();
  if (::bind(fd.get(), address.data(), address.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    const int code = errno;
    throw SocketError(
        fmt::format("cannot listen on local socket '@{}': {}", name, errno_text(code)),
        {.host = "@" + name, .port = 0, .code = code});
  }
  return fd;
}

std::optional<UniqueFd> connect_abstract(const std::string& name, Deadline deadline) {
  const UnixAddress address = abstract_address(name);
  UniqueFd fd = unix_socket();
  while (::connect(fd.get(), address.data(), address.length) != 0) {
    const int code = errno;
    if (code == ECONNREFUSED || code == ENOENT) {
      return std::nullopt;
    }
    // EAGAIN: the listener's queue is full; there is no descriptor to wait on for that.
    if (code != EAGAIN && code != EINTR) {
      throw SocketError(
          fmt::format("cannot connect to local socket '@{}': {}", name, errno_text(code)),
          {.host = "@" + name, .port = 0, .code = code});
    }
    if (deadline.passed(std::chrono::steady_clock::now())) {
      throw Timeout(
          fmt::format("cannot connect to local socket '@{}' in time: its queue of "
                      "connections stayed full",
                      name));
    }
    pause_for(std::chrono::milliseconds(2), deadline);
  }
  return fd;
}

void send_fds(int fd, std::span<const int> fds, std::span<const std::byte> payload,
              Deadline deadline) {
  if (fds.size() > limits::kMaxPassedFds || payload.empty()) {
    throw InvalidArgument(
        fmt::format("cannot pass {} descriptors with {} bytes; at most {} with at least one byte",
                    fds.size(), payload.size(), limits::kMaxPassedFds));
  }
  alignas(cmsghdr) ControlBuffer control{};
  iovec part{.iov_base = const_cast<std::byte*>(payload.data()), .iov_len = payload.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(entry), fds.data(), fds.size_bytes());
  }
  while (true) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {  // the descriptors went with the first byte
      write_full(fd, payload.subspan(static_cast<std::size_t>(sent)), deadline);
      return;
    }
    if (errno == EAGAIN && !wait_for_fd(fd, POLLOUT, deadline)) {
      throw Timeout("passing descriptors over a local socket took too long");
    }
    if (errno != EAGAIN && errno != EINTR) {
      throw PeerLost(fmt::format("cannot pass descriptors: {}", errno_text(errno)));
    }
  }
}

std::vector<UniqueFd> recv_fds(int fd, std::span<std::byte> payload, Deadline deadline) {
  std::vector<UniqueFd> fds;
  fds.reserve(limits::kMaxPassedFds);
  std::size_t done = 0;
  while (done < payload.size()) {
    alignas(cmsghdr) ControlBuffer control{};
    iovec part{.iov_base = payload.data() + done, .iov_len = payload.size() - done};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {
      collect_fds(message, fds);
      if ((message.msg_flags & MSG_CTRUNC) != 0 || fds.size() > limits::kMaxPassedFds) {
        throw PeerLost(fmt::format(
            "descriptors were lost: this process has too many files open (ulimit -n), or more "
            "than {} came at once",
            limits::kMaxPassedFds));
      }
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw PeerLost("local socket closed by the peer while descriptors were expected");
    } else if (errno == EAGAIN) {
      if (!wait_for_fd(fd, POLLIN, deadline)) {
        throw Timeout("no descriptors arrived over the local socket in time");
      }
    } else if (errno != EINTR) {
      throw PeerLost(fmt::format("cannot receive descriptors: {}", errno_text(errno)));
    }
  }
  return fds;
}

pid_t peer_pid(int fd) { return peer_credentials(fd).pid; }

uid_t peer_uid(int fd) { return peer_credentials(fd).uid; }

}  // namespace tutti
