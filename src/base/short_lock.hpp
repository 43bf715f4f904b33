// ShortLock: a lock for sections so short, and so rarely contended, that its own cost is what
// counts. Releasing it is a plain store, where a mutex needs a read-modify-write: that would wait
// until everything written before, often to cache lines of another CPU, has got there.
#pragma once

#include <sched.h>

#include <atomic>

namespace tutti {

class ShortLock {
 public:
  ShortLock() = default;
  ShortLock(const ShortLock&) = delete;
  ShortLock& operator=(const ShortLock&) = delete;

  // The names std::scoped_lock and std::unique_lock ask for.
  bool try_lock() {
    // acquire: pairs with the release in unlock(); all that was done under the lock is visible.
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    while (!try_lock()) {
      ::sched_yield();  // the holder may wait for this CPU
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace tutti
