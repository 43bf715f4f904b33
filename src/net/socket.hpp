// Sockets with deadlines. Every descriptor made here is close-on-exec and non-blocking; every
// function that waits takes a Deadline and waits in poll(2). Set-up code, so failures are
// exceptions: Timeout when the deadline passed, SocketError for what the kernel refused,
// PeerLost when the other end is gone, InvalidArgument for text that is no address.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

#include <tutti/error.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// An address that cannot be used as asked: in use, not of this host, not permitted. The facts are
/// fields, so that nobody has to search the text.
class SocketError : public InvalidArgument {
 public:
  struct Where {
    std::string host{};
    std::uint16_t port = 0;
    int code = 0;  ///< errno
  };
  SocketError(const std::string& text, Where where)
      : InvalidArgument(text), where_(std::move(where)) {}
  const Where& where() const noexcept { return where_; }

 private:
  Where where_;
};

/// "connection refused (ECONNREFUSED)": lower case, the same in every locale.
std::string errno_text(int code);

/// An IPv4 or IPv6 address with its port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  /// "10.0.0.2" or "fe80::1%eth0".
  std::string host() const;
  /// "10.0.0.2:29501" or "[::1]:80".
  std::string text() const;
  bool is_loopback() const;
};

/// "host:port", with brackets around an IPv6 address.
std::string join_host_port(std::string_view host, std::uint16_t port);

/// The addresses of a host name, an IPv4 address or an IPv6 address (brackets allowed), in the
/// order in which to try them. Empty if the name is unknown now; `why` then gets the cause. A
/// literal address asks no name server; a name may block as long as the resolver's own limits say.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port, std::string& why);

/// A socket that listens on the first usable address of `host` and nowhere else; every interface
/// only when asked for by "0.0.0.0" or "::". Port 0 picks a free one, see local_address. Throws
/// SocketError naming address, port, errno and, for a port in use, the process that holds it if
/// /proc tells.
UniqueFd listen_tcp(const std::string& host, std::uint16_t port);

/// Connects, trying every address of `host` again with growing pauses until `deadline`. The Timeout
/// names host, port, attempts and the last cause.
UniqueFd connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline);

/// The next connection of a listening socket; invalid if none is pending.
UniqueFd try_accept(int listener);
/// Waits for a connection.
UniqueFd accept_connection(int listener, Deadline deadline);

SocketAddress local_address(int fd);
/// The other end; length 0 (text "unknown address") if it has gone already.
SocketAddress peer_address(int fd);

/// Small messages leave at once. A no-op on sockets that are not TCP.
void set_nodelay(int fd);
void set_nonblocking(int fd);
void set_blocking(int fd);
void set_cloexec(int fd);
/// Lets the kernel notice a peer whose host has vanished, within about a minute.
void set_keepalive(int fd);

/// Waits until `events` (POLLIN, POLLOUT) or an error condition; false when the deadline passed.
bool wait_for_fd(int fd, short events, Deadline deadline);
/// A pause of at most `limit`, cut short by the deadline. For back-off, never for synchronisation.
void pause_for(Duration limit, Deadline deadline);

/// Waits for at least one byte and returns how many came; throws as read_full.
std::size_t read_some(int fd, std::span<std::byte> target, Deadline deadline);
/// Reads or writes all of it, or throws: Timeout, or PeerLost naming the peer's address.
void read_full(int fd, std::span<std::byte> target, Deadline deadline);
void write_full(int fd, std::span<const std::byte> source, Deadline deadline);

// ---- Abstract Unix sockets: they vanish with their process and live in the network namespace ----

/// Listens on the abstract name (no leading NUL). SocketError if it is taken.
UniqueFd listen_abstract(const std::string& name);
/// Connects; nullopt if nobody listens on that name in this network namespace.
std::optional<UniqueFd> connect_abstract(const std::string& name, Deadline deadline);

/// Sends descriptors (at most limits::kMaxPassedFds) together with a payload of at least one byte.
void send_fds(int fd, std::span<const int> fds, std::span<const std::byte> payload,
              Deadline deadline);
/// Fills `payload` and returns the descriptors that came with it.
std::vector<UniqueFd> recv_fds(int fd, std::span<std::byte> payload, Deadline deadline);

/// Process at the other end of a Unix socket; 0 if it lives in a PID namespace not visible here.
pid_t peer_pid(int fd);
uid_t peer_uid(int fd);

/// "process 4711 (python3 train.py)" for the process that listens on the TCP port, else "".
std::string listener_owner(std::uint16_t port);

}  // namespace tutti
