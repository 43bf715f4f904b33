#include "net/fork_guard.hpp"

#include "base/ensure.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <unordered_set>

namespace tutti {
namespace {

// Fork is an event of the process, so its list of descriptors belongs to the process. Never
// destroyed: a guard may outlive any static object.
struct Registry {
  std::mutex mutex;
  std::unordered_set<int> fds;
};

// Written by the child's only thread, before its fork returns.
std::atomic<std::uint64_t> generation{0};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

void before_fork() {
  registry().mutex.lock();  // the child gets a list that nobody was changing
}

void in_parent() { registry().mutex.unlock(); }

void in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : registry().fds) {
    if (null_fd < 0 || ::dup3(null_fd, fd, O_CLOEXEC) < 0) {
      ::close(fd);  // out of descriptors: letting go matters more than the number
    }
  }
  if (null_fd >= 0) {
    ::close(null_fd);
  }
  registry().mutex.unlock();
}

void watch_forks() {
  static const int code = ::pthread_atfork(before_fork, in_parent, in_child);
  ensure(code == 0, "pthread_atfork failed");
}

}  // namespace

std::uint64_t fork_generation() {
  watch_forks();
  return generation.load(std::memory_order_relaxed);
}

ForkGuard::ForkGuard(int fd) : fd_(fd) {
  watch_forks();
  const std::lock_guard lock(registry().mutex);
  registry().fds.insert(fd);
}

void ForkGuard::release() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0) {
    const std::lock_guard lock(registry().mutex);
    registry().fds.erase(fd);
  }
}

}  // namespace tutti
