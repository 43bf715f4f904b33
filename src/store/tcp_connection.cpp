#include "store/tcp_connection.hpp"

#include "base/failure.hpp"
#include "base/limits.hpp"
#include "net/socket.hpp"
#include "store/rules.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

namespace tutti {
namespace {

// The server keeps the time; its answer needs a moment to get here.
constexpr Duration kGrace = std::chrono::seconds(2);
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// Most replies come sooner than a sleeping thread wakes up: so long a reply is polled for, and the
// CPU offered to others meanwhile. Then the thread sleeps.
constexpr Duration kEagerWait = std::chrono::microseconds(30);

TimePoint clock_now() { return std::chrono::steady_clock::now(); }

/// As recv on a blocking socket. Yields before the first look: a reply is never there at once, and
/// where clients share a CPU each of them finds its own when its turn comes round.
ssize_t receive_eagerly(int fd, std::span<char> target) {
  const TimePoint until = clock_now() + kEagerWait;
  do {
    ::sched_yield();
    const ssize_t got = ::recv(fd, target.data(), target.size(), MSG_DONTWAIT);
    if (got >= 0 || errno != EAGAIN) {
      return got;
    }
  } while (clock_now() < until);
  return ::recv(fd, target.data(), target.size(), 0);
}

}  // namespace

TcpStoreConnection::TcpStoreConnection(UniqueFd fd, std::string where)
    : fd_(std::move(fd)),
      guard_(fd_.get()),
      where_(std::move(where)),
      generation_(fork_generation()) {
  // Blocking, with a limit: a reply costs one system call. The limit is how often a waiting thread
  // looks at its own deadline; the server keeps the time of each call.
  const timeval slice{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
  set_blocking(fd_.get());
}

void TcpStoreConnection::fail(std::string_view operation, std::string_view why) const {
  throw StoreError(fmt::format("store {} on {}: {}", operation, where_, why));
}

std::string TcpStoreConnection::call(std::string_view operation, WireWriter& request,
                                     Duration limit) {
  if (fork_generation() != generation_) {
    fail(operation, "this store was opened before fork; open another in the child");
  }
  if (request.frame_bytes() > limits::kMaxStoreFrameBytes) {
    throw InvalidArgument(fmt::format("store {} on {}: {} bytes in one call, at most {}; split it",
                                      operation, where_, request.frame_bytes(),
                                      limits::kMaxStoreFrameBytes));
  }
  const Deadline deadline = Deadline::after(limit + kGrace);
  Slot slot;
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) {
      fail(operation, broken_);
    }
    number = next_number_++;
    waiting_.emplace(number, &slot);
  }
  request.set_number(number);
  try {
    send(request.frame(), deadline);
    return opened_reply(operation, receive(slot, deadline));
  } catch (const PeerLost& lost) {
    forget(number);
    fail(operation, lost.what());
  } catch (const Timeout&) {
    forget(number);
    throw;
  }
}

void TcpStoreConnection::forget(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(number);
}

void TcpStoreConnection::send(const std::string& frame, Deadline deadline) {
  const std::lock_guard sending(send_mutex_);
  try {
    write_full(fd_.get(), std::as_bytes(std::span(frame)), deadline);
  } catch (const Timeout& late) {
    lose(late.what());  // part of a frame may be out: the stream is of no use any more
  } catch (const PeerLost& lost) {
    lose(lost.what());
  }
}

void TcpStoreConnection::lose(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) {
    broken_ = fmt::format("the server is gone: {}", why);
  }
  changed_.notify_all();
  throw PeerLost(broken_);
}

std::string TcpStoreConnection::receive(Slot& slot, Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!slot.done) {
    if (!broken_.empty()) {
      throw PeerLost(broken_);
    }
    const TimePoint now = clock_now();
    if (deadline.passed(now)) {
      throw Timeout(fmt::format("store on {}: the server does not answer", where_));
    }
    if (reading_) {
      (void)changed_.wait_for(lock, deadline.left(now));
      continue;
    }
    reading_ = true;
    lock.unlock();
    const std::string why = read_input();
    lock.lock();
    reading_ = false;
    deliver_replies();
    if (!why.empty() && broken_.empty()) {
      broken_ = fmt::format("the server is gone: {}", why);
    }
    changed_.notify_all();  // whose reply came, and who reads next
  }
  return std::move(slot.frame);
}

std::string TcpStoreConnection::read_input() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = receive_eagerly(fd_.get(), buffer);
  if (got > 0) {
    input_.append(buffer.data(), static_cast<std::size_t>(got));
    return {};
  }
  if (got == 0) {
    return "it closed the connection";
  }
  return errno == EAGAIN || errno == EINTR ? std::string() : errno_text(errno);
}

void TcpStoreConnection::deliver_replies() {
  std::size_t done = 0;
  while (input_.size() - done >= kStoreLengthBytes + sizeof(std::uint32_t)) {
    const std::size_t payload = load_u32(input_.data() + done);
    if (payload > limits::kMaxStoreFrameBytes || payload < sizeof(std::uint32_t)) {
      broken_ = fmt::format("the server sent a frame of {} bytes", payload);
      return;
    }
    const std::size_t start = done + kStoreLengthBytes;
    if (input_.size() - start < payload) {
      break;
    }
    const auto found = waiting_.find(load_u32(input_.data() + start));
    const bool alone = done == 0 && start + payload == input_.size();  // spares a copy
    if (found != waiting_.end()) {                                     // else: its caller gave up
      found->second->frame =
          alone ? std::exchange(input_, {}) : input_.substr(done, kStoreLengthBytes + payload);
      found->second->done = true;
      waiting_.erase(found);
      if (alone) {
        return;
      }
    }
    done = start + payload;
  }
  input_.erase(0, done);
}

/// The fields of a reply that says ok; throws what any other says.
std::string TcpStoreConnection::opened_reply(std::string_view operation, std::string frame) const {
  constexpr std::size_t kStatusAt = kStoreLengthBytes + sizeof(std::uint32_t);
  if (frame.size() <= kStatusAt) {
    fail(operation, "the server sent an empty reply");
  }
  const auto status = static_cast<StoreStatus>(frame[kStatusAt]);
  frame.erase(0, kStatusAt + 1);
  if (status == StoreStatus::ok) {
    return frame;
  }
  std::string text;
  try {
    text = WireReader(frame).text();
  } catch (const MalformedFrame& bad) {
    fail(operation, bad.what());
  }
  raise({.kind = kind_of(status),
         .text = fmt::format("store {} on {}: {}", operation, where_, text)});
}

}  // namespace tutti
