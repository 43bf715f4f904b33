#include "transport/publish.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace tutti {

void wake_sleepers(Epoch& line, Waker& waker) {
  std::uint32_t bits = line.sleepers.load(std::memory_order_relaxed);
  // seq_cst: a sleeper that registers after this looks at the value after our store of it.
  while (!line.sleepers.compare_exchange_weak(bits, without_registrations(bits),
                                              std::memory_order_seq_cst)) {
  }
  if ((bits & kFutexSleeper) != 0) {
    ::syscall(SYS_futex, &line.sleepers, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  if ((bits & (kTaking - 1)) != 0) {
    waker.ring(bits & (kTaking - 1));
  }
}

std::uint32_t register_sleeper(Epoch& line, std::uint32_t bit, PublishMode mode) {
  const std::uint32_t before = line.sleepers.fetch_or(bit, std::memory_order_seq_cst);
  if (kAsymmetricAllowed && mode == PublishMode::asymmetric) {
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  }
  return before | bit;
}

void futex_sleep(Epoch& line, std::uint32_t registration, std::chrono::nanoseconds limit) {
  constexpr long kSecond = 1'000'000'000;
  timespec time{.tv_sec = limit.count() / kSecond, .tv_nsec = limit.count() % kSecond};
  ::syscall(SYS_futex, &line.sleepers, FUTEX_WAIT, registration, &time, nullptr, 0);
}

bool register_for_membarrier() {
  if (!kAsymmetricAllowed) {
    return false;
  }
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands >= 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

}  // namespace tutti
