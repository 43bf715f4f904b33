// A TCP port that nobody else is given while a test's ranks serve a store on it. It is bound but
// does not listen, and both ends set SO_REUSEADDR: then the kernel lets the store listen there.
#pragma once

#include "base/ensure.hpp"
#include "base/unique_fd.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace tutti::testing {

class ReservedPort {
 public:
  ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int reuse = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const bool bound =
        ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
        ::bind(fd_.get(), generic, length) == 0 && ::getsockname(fd_.get(), generic, &length) == 0;
    ensure(bound, "a port can be reserved");
    number_ = ntohs(address.sin_port);
  }
  std::uint16_t number() const { return number_; }

 private:
  UniqueFd fd_;
  std::uint16_t number_ = 0;
};

}  // namespace tutti::testing
