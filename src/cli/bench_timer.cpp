#include "cli/bench_timer.hpp"

#include <tutti/collectives.hpp>

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Warm-up: a second look at what seems short, a third at what is very short.
constexpr double kLong_s = 0.05;
constexpr double kShort_s = 1e-3;
constexpr double kWarmUp_s = 2e-3;
constexpr double kMostWarmUps = 400;
constexpr double kLeast_s = 1e-8;  // keeps quotients finite

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// So far, of this process.
Usage usage() {
  timespec cpu{};  // getrusage's times are as exact, but two numbers
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  rusage counts{};
  ::getrusage(RUSAGE_SELF, &counts);
  return {.cpu_s = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9,
          .faults = static_cast<double>(counts.ru_minflt + counts.ru_majflt)};
}

}  // namespace

double Timer::largest(double value) {
  *figure_.data_as<double>() = value;
  all_reduce(control_, figure_, {.op = ReduceOp::max});
  return *figure_.data_as<double>();
}

double Timer::seconds_per_call(const BenchOp& row, Workload& work, int calls, Usage* used) {
  barrier(control_);
  const Usage before = used != nullptr ? usage() : Usage{};
  const auto start = Clock::now();
  row.iterate(work, 0, calls);
  const double taken = seconds_since(start);
  if (used != nullptr) {
    const Usage after = usage();
    used->cpu_s += after.cpu_s - before.cpu_s;
    used->faults += after.faults - before.faults;
  }
  return largest(taken / calls);
}

double Timer::estimate(const BenchOp& row, Workload& work) {
  double seconds = seconds_per_call(row, work, 1);
  if (seconds < kLong_s) {
    seconds = seconds_per_call(row, work, 2);
  }
  if (seconds < kShort_s) {
    const double calls = std::clamp(kWarmUp_s / std::max(seconds, kLeast_s), 4.0, kMostWarmUps);
    seconds = seconds_per_call(row, work, static_cast<int>(calls));
  }
  return std::max(seconds, kLeast_s);
}

std::vector<double> Timer::single_calls(const BenchOp& row, Workload& work, int calls) {
  const Tensor times = Tensor::zeros({calls}, DType::f64);
  auto* seconds = times.data_as<double>();
  barrier(control_);
  for (int i = 0; i < calls; ++i) {
    const auto start = Clock::now();
    row.iterate(work, i, 1);
    seconds[i] = seconds_since(start);
  }
  all_reduce(control_, times, {.op = ReduceOp::max});
  return {seconds, seconds + calls};
}

double median(const std::vector<double>& values) {
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double quantile(const std::vector<double>& values, double share) {
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace tutti::cli
