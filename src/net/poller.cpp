#include "net/poller.hpp"

#include "net/socket.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace tutti {

Poller::Poller()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.valid() || !bell_.valid()) {
    throw Internal(
        fmt::format("cannot make a poller: {}; raise the limit of open files", errno_text(errno)));
  }
  epoll_guard_ = ForkGuard(epoll_.get());
  bell_guard_ = ForkGuard(bell_.get());
  add(bell_.get(), EPOLLIN, kWakeToken);
}

void Poller::add(int fd, std::uint32_t events, std::uint64_t token) {
  control(EPOLL_CTL_ADD, fd, events, token);
}

void Poller::modify(int fd, std::uint32_t events, std::uint64_t token) {
  control(EPOLL_CTL_MOD, fd, events, token);
}

void Poller::remove(int fd) { control(EPOLL_CTL_DEL, fd, 0, 0); }

void Poller::control(int operation, int fd, std::uint32_t events, std::uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    throw Internal(fmt::format("cannot watch descriptor {}: {}", fd, errno_text(errno)));
  }
}

std::span<const Poller::Event> Poller::wait(Duration limit) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  const int capped = static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000));
  const int count = ::epoll_wait(epoll_.get(), raw_.data(), kEventsPerWait, capped);
  std::size_t ready = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = raw_[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakeToken) {
      std::uint64_t rings = 0;
      (void)!::read(bell_.get(), &rings, sizeof(rings));
      continue;
    }
    ready_[ready++] = {.token = event.data.u64, .events = event.events};
  }
  return std::span<const Event>(ready_).first(ready);
}

void Poller::wake() noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
  errno = saved;
}

}  // namespace tutti
