// The TCP store's server: one thread, one epoll loop, any number of clients. What the bytes mean is
// in server_core.hpp; here are only sockets.
#pragma once

#include "base/unique_fd.hpp"
#include "net/fork_guard.hpp"
#include "net/poller.hpp"
#include "net/socket.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace tutti {

class TcpStoreServer {
 public:
  /// Serves on a listening socket until destroyed.
  TcpStoreServer(UniqueFd listener, std::string secret);
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;
  ~TcpStoreServer();

  const SocketAddress& address() const { return address_; }

 private:
  UniqueFd listener_;
  ForkGuard listener_guard_;
  SocketAddress address_;
  Poller poller_{};
  std::atomic<bool> stop_{false};  // set by the owner, read by the loop after the bell
  std::uint64_t generation_ = fork_generation();
  // Owned by pointer: in a forked child there is no thread to join, and the object is let go.
  std::unique_ptr<std::thread> thread_{};
};

}  // namespace tutti
