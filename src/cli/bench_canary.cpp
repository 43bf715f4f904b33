#include "cli/bench_canary.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace tutti::cli {
namespace {

constexpr unsigned kTurns = 40;  // per batch
constexpr unsigned kBatches = 12;
constexpr double kNear_ns = 180;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Lines far enough apart that no prefetcher fetches both.
struct alignas(256) Flag {
  std::atomic<unsigned> value{0};
};

// acquire and release: a turn is one hand-over of everything written before it, as in a collective.
void await(const Flag& flag, unsigned turn) {
  while (flag.value.load(std::memory_order_acquire) != turn) {
    relax();
  }
}

void pass(Flag& flag, unsigned turn) { flag.value.store(turn, std::memory_order_release); }

double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double best_turn_ns(Flag& ping, Flag& pong) {
  double best = 1e12;
  unsigned turn = 0;
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kTurns; ++i) {
      pass(ping, ++turn);
      await(pong, turn);
    }
    best = std::min(best, nanoseconds_since(start) / kTurns);
  }
  return best;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

bool restrict_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(cpu, &set);
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

double canary_ns(const std::vector<int>& cpus) {
  if (cpus.size() < 2) {
    return 0;
  }
  Flag ping;
  Flag pong;
  const std::vector<int> before = allowed_cpus();
  if (!restrict_to({cpus[0]})) {
    return 0;
  }
  // Bounded: each side takes a fixed number of turns and needs nobody else.
  std::thread partner([&] {
    restrict_to({cpus[1]});
    for (unsigned turn = 1; turn <= kTurns * kBatches; ++turn) {
      await(ping, turn);
      pass(pong, turn);
    }
  });
  const double round_trip = best_turn_ns(ping, pong);
  partner.join();
  restrict_to(before);
  return round_trip / 2;
}

std::string_view placement(double before_ns, double after_ns) {
  if (before_ns <= 0 || after_ns <= 0) {
    return "-";
  }
  const bool near_before = before_ns < kNear_ns;
  const bool near_after = after_ns < kNear_ns;
  return near_before != near_after ? "mixed" : near_before ? "near" : "far";
}

}  // namespace tutti::cli
