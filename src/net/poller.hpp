// Poller: epoll with a bell. One thread waits; any thread may ring.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "net/fork_guard.hpp"

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

namespace tutti {

class Poller {
 public:
  /// What one descriptor is ready for: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  struct Event {
    std::uint64_t token = 0;
    std::uint32_t events = 0;
  };

  Poller();
  /// Watches `fd` (level-triggered) until it is removed or closed everywhere. `token` comes back
  /// with each event; kWakeToken is taken.
  void add(int fd, std::uint32_t events, std::uint64_t token);
  void modify(int fd, std::uint32_t events, std::uint64_t token);
  void remove(int fd);

  /// Waits at most `limit` (zero: just looks) and returns what is ready; valid until the next
  /// call. Comes back early, perhaps with nothing, when the bell rang.
  std::span<const Event> wait(Duration limit);
  /// Makes the current or next wait return. From any thread, and from a signal handler.
  void wake() noexcept;

  static constexpr std::uint64_t kWakeToken = ~std::uint64_t{0};

 private:
  static constexpr int kEventsPerWait = 256;
  void control(int operation, int fd, std::uint32_t events, std::uint64_t token);

  UniqueFd epoll_{};
  UniqueFd bell_{};
  // A forked child shares the kernel object and would ring and rearm the parent's.
  ForkGuard epoll_guard_{};
  ForkGuard bell_guard_{};
  std::array<epoll_event, kEventsPerWait> raw_{};  // waiting thread only
  std::array<Event, kEventsPerWait> ready_{};      // waiting thread only
};

}  // namespace tutti
