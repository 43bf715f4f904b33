#include "transport/publish.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace tutti {

void wake_sleepers(Epoch& line, Waker& waker) {
  // seq_cst: a sleeper that registers after this exchange looks at the value after our store of it.
  const std::uint32_t bits = line.sleepers.exchange(0, std::memory_order_seq_cst);
  if ((bits & kFutexSleeper) != 0) {
    ::syscall(SYS_futex, &line.value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  if ((bits & ~kFutexSleeper) != 0) {
    waker.ring(bits & ~kFutexSleeper);
  }
}

void register_sleeper(Epoch& line, std::uint32_t bit, PublishMode mode) {
  line.sleepers.fetch_or(bit, std::memory_order_seq_cst);
  if (kAsymmetricAllowed && mode == PublishMode::asymmetric) {
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  }
}

void futex_sleep(Epoch& line, std::uint32_t seen, std::chrono::nanoseconds limit) {
  constexpr long kSecond = 1'000'000'000;
  timespec time{.tv_sec = limit.count() / kSecond, .tv_nsec = limit.count() % kSecond};
  ::syscall(SYS_futex, &line.value, FUTEX_WAIT, seen, &time, nullptr, 0);
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
