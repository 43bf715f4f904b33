#include "launcher/keeper.hpp"

#include "base/clock.hpp"
#include "launcher/keeper_process.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::launcher {

Keeper::Keeper(const KeeperSetup& setup) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Internal(fmt::format("socketpair for the keeper failed: {}", std::strerror(errno)));
  }
  channel_.reset(ends[0]);
  UniqueFd far_end(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) {
    throw Internal(fmt::format("the keeper process could not be forked: {}", std::strerror(errno)));
  }
  if (pid_ == 0) {
    channel_.reset();
    keeper_process(setup, std::move(far_end));
  }
}

Keeper::~Keeper() {
  channel_.reset();
  if (pid_ <= 0) {
    return;
  }
  const UniqueFd watch(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  constexpr int kLimitMs = 5000;
  pollfd end{.fd = watch.get(), .events = POLLIN, .revents = 0};
  if (!watch.valid() || ::poll(&end, 1, kLimitMs) > 0) {
    reap();
  }
}

void Keeper::send(KeeperCommand command) {
  // The channel holds far more than the few commands of a job, so that this never waits for long.
  while (::send(channel_.get(), &command, sizeof(command), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

Keeper::Next Keeper::receive(KeeperEvent& event) {
  for (;;) {
    const ssize_t length = ::recv(channel_.get(), &event, sizeof(event), MSG_DONTWAIT);
    if (length == static_cast<ssize_t>(sizeof(event))) {
      return Next::event;
    }
    if (length < 0 && errno == EINTR) {
      continue;
    }
    return length < 0 && errno == EAGAIN ? Next::nothing : Next::gone;
  }
}

int Keeper::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace tutti::launcher
