#include "transport/socket_set.hpp"

#include "base/ensure.hpp"

#include <sys/epoll.h>

#include <array>
#include <mutex>
#include <utility>

namespace tutti {
namespace {

constexpr std::uint32_t kReads = EPOLLIN | EPOLLRDHUP;

}  // namespace

void SocketSet::add(Channel& channel) {
  if (!epoll_.valid()) {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    ensure(epoll_.valid(), "no descriptor for an epoll set; raise ulimit -n");
    fd_.store(epoll_.get(), std::memory_order_release);
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  watched_[static_cast<std::size_t>(channel.peer())].added = true;
  watch(channel);
}

void SocketSet::watch(Channel& channel) {
  const int fd = channel.fd();
  if (fd < 0) {
    return;
  }
  Watched& entry = watched_[static_cast<std::size_t>(channel.peer())];
  const std::uint32_t wanted =
      channel.failed() ? 0 : kReads | (channel.has_output() ? std::uint32_t{EPOLLOUT} : 0);
  if (!entry.added || wanted == entry.events) {
    return;
  }
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = &channel;
  const int act = wanted == 0 ? EPOLL_CTL_DEL : entry.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  ensure(::epoll_ctl(epoll_.get(), act, fd, &event) == 0, "epoll refused a socket");
  entry.events = wanted;
}

/// True if bytes moved.
bool SocketSet::pump(Channel& channel, Events& events) {
  const std::unique_lock lock(channel.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) {
    return false;
  }
  const bool before = std::exchange(events.moved, false);
  channel.pump(events);
  watch(channel);
  return std::exchange(events.moved, events.moved || before);
}

void SocketSet::poll(Events& events) {
  const int set = fd();
  if (set < 0) {
    return;
  }
  // A read of the socket that is waited for says at once what epoll would only announce; if there
  // is no other, epoll need not be asked at all.
  // relaxed: pairs with the store below, of a channel that the storing thread got from the kernel;
  // what is in it is guarded by its lock, and channels live as long as the transport.
  Channel* const last = recent_.load(std::memory_order_relaxed);
  if (last != nullptr && !last->failed() &&
      (pump(*last, events) || count_.load(std::memory_order_relaxed) == 1)) {
    return;
  }
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(set, ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    Channel& channel = *static_cast<Channel*>(ready[static_cast<std::size_t>(i)].data.ptr);
    if (pump(channel, events)) {
      recent_.store(&channel, std::memory_order_relaxed);
    }
  }
}

}  // namespace tutti
