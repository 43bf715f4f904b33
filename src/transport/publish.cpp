#include "transport/publish.hpp"

#include "base/limits.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
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

void futex_sleep(Epoch& line, std::uint32_t seen) {
  constexpr auto kSlice = std::chrono::nanoseconds(limits::kSleepSlice);
  timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(kSlice.count())};
  ::syscall(SYS_futex, &line.value, FUTEX_WAIT, seen, &limit, nullptr, 0);
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
