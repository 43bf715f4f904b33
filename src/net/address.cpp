// Addresses as text and back: resolving names, printing what the kernel says about a socket.
#include "base/ensure.hpp"
#include "net/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/un.h>

#include <cctype>
#include <cstring>
#include <memory>

namespace tutti {
namespace {

std::string without_brackets(const std::string& host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

/// One getaddrinfo call; appends to `found` and returns the resolver's code.
int look_up(const std::string& host, std::uint16_t port, int flags,
            std::vector<SocketAddress>& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  const int code = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
  if (code != 0) {
    return code;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) {
      continue;
    }
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    found.push_back(address);
  }
  return 0;
}

template <class Ask>
SocketAddress ask_kernel(int fd, Ask ask) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (ask(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return {};
  }
  return address;
}

}  // namespace

std::string errno_text(int code) {
  const char* description = ::strerrordesc_np(code);
  const char* name = ::strerrorname_np(code);
  if (description == nullptr || name == nullptr) {
    return fmt::format("errno {}", code);
  }
  std::string text = description;
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return fmt::format("{} ({})", text, name);
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return 0;
}

std::string SocketAddress::host() const {
  char buffer[NI_MAXHOST];
  if (length == 0 || (family() != AF_INET && family() != AF_INET6) ||
      ::getnameinfo(data(), length, buffer, sizeof(buffer), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return buffer;
}

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) {
    return "a local socket";
  }
  const std::string name = host();
  return name.empty() ? "unknown address" : join_host_port(name, port());
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
    return (ntohl(address->sin_addr.s_addr) >> 24) == 127;
  }
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr) != 0;
  }
  return false;
}

std::string join_host_port(std::string_view host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && host.front() != '[';
  return bare_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port, std::string& why) {
  std::vector<SocketAddress> found;
  const std::string name = without_brackets(host);
  if (name.empty() || name.size() >= NI_MAXHOST || name.find('\0') != std::string::npos) {
    throw InvalidArgument(fmt::format(
        "host '{}' is no host name or address; give a name, an IPv4 or an IPv6 address", host));
  }
  if (look_up(name, port, AI_NUMERICHOST, found) == 0 && !found.empty()) {
    return found;
  }
  const int code = look_up(name, port, 0, found);
  if (found.empty()) {
    why = code == 0 ? "the name has no IPv4 or IPv6 address"
                    : fmt::format("the name cannot be resolved: {}", ::gai_strerror(code));
  }
  return found;
}

SocketAddress local_address(int fd) { return ask_kernel(fd, ::getsockname); }

SocketAddress peer_address(int fd) { return ask_kernel(fd, ::getpeername); }

}  // namespace tutti
