// SocketSet: the channels whose links are sockets, and how to look at them without waiting. An
// epoll set knows which are ready; the socket that had something last is read without asking it.
#pragma once

#include "base/unique_fd.hpp"
#include "transport/channel.hpp"
#include "transport/events.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace tutti {

class SocketSet {
 public:
  explicit SocketSet(int world_size) : watched_(static_cast<std::size_t>(world_size)) {}

  /// `channel` has got its socket. The channel's lock and one that calls of add() share are held.
  void add(Channel& channel);
  /// Keeps the set in step with what the channel waits for; does nothing for others. Its lock is
  /// held.
  void watch(Channel& channel);
  /// Moves what can be moved.
  void poll(Events& events);
  /// Readable when a socket has something; -1 without sockets.
  int fd() const {
    // acquire: pairs with the release in add(); the set is made.
    return fd_.load(std::memory_order_acquire);
  }

 private:
  // Written under the channel's lock.
  struct Watched {
    bool added = false;
    std::uint32_t events = 0;
  };
  bool pump(Channel& channel, Events& events);

  std::vector<Watched> watched_;  // by peer
  UniqueFd epoll_;                // made with the first socket
  std::atomic<int> fd_{-1};
  std::atomic<int> count_{0};
  std::atomic<Channel*> recent_{nullptr};  // most likely it is waited for again
};

}  // namespace tutti
