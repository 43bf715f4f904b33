#include "store/tcp_server.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "store/server_core.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <unordered_map>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint64_t kListenerToken = 0;  // sessions count from 1
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kPartsPerSend = 16;
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kLongestWait = std::chrono::seconds(10);
// A client that got its reply often asks again before a sleeping thread could wake up: so long
// after the last request the loop polls, and offers the CPU to others. Then it sleeps.
constexpr Duration kEagerWait = std::chrono::microseconds(50);
// After the process ran out of descriptors: how long new clients wait in the kernel's queue.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

TimePoint clock_now() { return std::chrono::steady_clock::now(); }

struct Connection {
  UniqueFd fd{};
  ForkGuard guard{};
  std::uint32_t watched = 0;
};

/// Lives in the server's thread.
class Loop {
 public:
  using SessionId = StoreServerCore::SessionId;

  Loop(Poller& poller, int listener, std::string secret)
      : poller_(poller), listener_(listener), core_(std::move(secret)) {
    poller_.add(listener_, EPOLLIN, kListenerToken);
  }

  void run(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_acquire)) {
      const auto events = next_events(stop);
      now_ = clock_now();
      for (const Poller::Event& event : events) {
        if (event.token == kListenerToken) {
          accept_clients();
        } else {
          serve(event);
        }
        flush_changed();
      }
      core_.expire(now_);
      flush_changed();
      if (accept_paused_ && now_ >= accept_again_) {
        accept_paused_ = false;
        poller_.add(listener_, EPOLLIN, kListenerToken);
      }
    }
  }

 private:
  /// Waits for them; empty when a deadline has come, and once `stop` is set.
  std::span<const Poller::Event> next_events(const std::atomic<bool>& stop) {
    const TimePoint until = now_ + kEagerWait;
    while (clock_now() < until) {
      const auto events = poller_.wait(Duration::zero());
      // acquire: `stop` was set before the bell that this poll may have taken (see run).
      if (!events.empty() || stop.load(std::memory_order_acquire)) {
        return events;
      }
      ::sched_yield();
    }
    return poller_.wait(next_wait());
  }

  Duration next_wait() const {
    Duration wait = kLongestWait;
    const TimePoint now = clock_now();
    if (const auto next = core_.next_deadline()) {
      wait = std::min(wait, *next - now);
    }
    if (accept_paused_) {
      wait = std::min(wait, accept_again_ - now);
    }
    return std::max(wait, Duration::zero());
  }

  void accept_clients() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      UniqueFd fd = try_accept(listener_);
      if (!fd.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          out_of_descriptors(errno);
        }
        return;
      }
      if (connections_.size() >= limits::kMaxStoreClients && !drop_a_stranger()) {
        continue;  // closes the new one
      }
      set_keepalive(fd.get());
      const SessionId id = core_.open(now_);
      poller_.add(fd.get(), EPOLLIN, id);
      Connection& connection = connections_[id];
      connection.guard = ForkGuard(fd.get());
      connection.fd = std::move(fd);
      connection.watched = EPOLLIN;
    }
  }

  /// Room for a new client at the cost of one that has not proved anything yet.
  bool drop_a_stranger() {
    const auto id = core_.oldest_stranger();
    if (!id) {
      return false;
    }
    close(*id);
    return true;
  }

  void out_of_descriptors(int code) {
    if (drop_a_stranger()) {
      return;
    }
    poller_.remove(listener_);
    accept_paused_ = true;
    accept_again_ = now_ + kAcceptPause;
    if (!reported_) {
      reported_ = true;
      log_line(fmt::format("store server cannot accept more than {} clients: {}; raise ulimit -n",
                           connections_.size(), errno_text(code)));
    }
  }

  void serve(const Poller::Event& event) {
    const auto found = connections_.find(event.token);
    if (found == connections_.end()) {
      return;  // closed earlier in this turn
    }
    const int fd = found->second.fd.get();
    if ((event.events & EPOLLOUT) != 0) {
      flush(event.token);
    }
    if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0 || !core_.knows(event.token)) {
      return;
    }
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got > 0) {
      core_.receive(event.token, std::span(buffer_).first(static_cast<std::size_t>(got)), now_);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(event.token);
    }
  }

  void flush_changed() {
    for (auto changed = core_.take_changed(); !changed.empty(); changed = core_.take_changed()) {
      for (const SessionId id : changed) {
        flush(id);
      }
    }
  }

  /// Sends what the socket takes, then watches for what is needed next.
  void flush(SessionId id) {
    if (core_.is_dead(id)) {
      return close(id);
    }
    Connection& connection = connections_.at(id);
    while (core_.has_output(id)) {
      std::array<iovec, kPartsPerSend> parts;
      const std::span<iovec> used = core_.gather(id, parts);
      msghdr message{};
      message.msg_iov = used.data();
      message.msg_iovlen = used.size();
      const ssize_t sent = ::sendmsg(connection.fd.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) {
        continue;
      }
      if (sent < 0 && errno != EAGAIN) {
        return close(id);
      }
      if (sent < 0) {
        break;
      }
      core_.consume(id, static_cast<std::size_t>(sent), now_);
    }
    if (core_.is_doomed(id) && !core_.has_output(id)) {
      return close(id);
    }
    const std::uint32_t wanted = (core_.wants_input(id) ? std::uint32_t{EPOLLIN} : 0U) |
                                 (core_.has_output(id) ? std::uint32_t{EPOLLOUT} : 0U);
    if (wanted != connection.watched) {
      connection.watched = wanted;
      poller_.modify(connection.fd.get(), wanted, id);
    }
  }

  void close(SessionId id) {
    core_.close(id);
    connections_.erase(id);  // closing the descriptor also ends its watch
  }

  Poller& poller_;
  int listener_;
  StoreServerCore core_;
  std::unordered_map<SessionId, Connection> connections_{};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kReadBytes);
  TimePoint now_ = clock_now();
  bool accept_paused_ = false;
  bool reported_ = false;
  TimePoint accept_again_{};
};

void serve_until(const std::atomic<bool>& stop, Poller& poller, int listener,
                 const std::string& secret) {
  try {
    Loop(poller, listener, secret).run(stop);
  } catch (const std::exception& error) {
    // The clients see their connections close; there is no caller here who could catch.
    log_line(fmt::format("store server stopped: {}", error.what()));
  }
}

}  // namespace

TcpStoreServer::TcpStoreServer(UniqueFd listener, std::string secret)
    : listener_(std::move(listener)),
      listener_guard_(listener_.get()),
      address_(local_address(listener_.get())) {
  thread_ = std::make_unique<std::thread>(
      [this, secret = std::move(secret)] { serve_until(stop_, poller_, listener_.get(), secret); });
}

TcpStoreServer::~TcpStoreServer() {
  if (fork_generation() != generation_) {
    (void)thread_.release();  // the thread exists in the parent only
    return;
  }
  stop_.store(true, std::memory_order_release);
  poller_.wake();
  thread_->join();
}

}  // namespace tutti
