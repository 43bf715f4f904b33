#include "cli/bench_measure.hpp"

#include "cli/bench_canary.hpp"
#include "cli/bench_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tutti::cli {
namespace {

// Warm-up: a second look at what seems short, a third at what is very short.
constexpr double kLong_s = 0.05;
constexpr double kShort_s = 1e-3;
constexpr double kWarmUp_s = 2e-3;
constexpr double kMostWarmUps = 400;
constexpr double kMostIterations = 20000;
constexpr double kLeast_s = 1e-8;  // keeps quotients finite

/// One (operation, type, size) on this rank.
class Measurement {
 public:
  Measurement(Bench& bench, const BenchOp& row, const Layout& layout) : bench_(bench), row_(row) {
    work_.group = bench.group;
    work_.rank = bench.group.rank();
    work_.ranks = bench.group.size();
    work_.reduce = bench.options.reduce;
    work_.layout = layout;
    make_buffers(row, work_);
  }

  Row run();

 private:
  double largest(double value) const;
  double seconds_per_call(int calls);
  double estimate();
  double look_at_cpus();
  Row finish(std::vector<double> seconds) const;

  Bench& bench_;
  const BenchOp& row_;
  Workload work_{};
  Tensor figure_ = Tensor::zeros({1}, DType::f64);
  int looks_ = 0;
};

double Measurement::largest(double value) const {
  *figure_.data_as<double>() = value;
  all_reduce(bench_.control, figure_, {.op = ReduceOp::max});
  return *figure_.data_as<double>();
}

double Measurement::seconds_per_call(int calls) {
  barrier(bench_.control);
  const auto start = std::chrono::steady_clock::now();
  row_.iterate(work_, 0, calls);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return largest(taken.count() / calls);
}

double Measurement::estimate() {
  double seconds = seconds_per_call(1);
  if (seconds < kLong_s) {
    seconds = seconds_per_call(2);
  }
  if (seconds < kShort_s) {
    const double calls = std::clamp(kWarmUp_s / std::max(seconds, kLeast_s), 4.0, kMostWarmUps);
    seconds = seconds_per_call(static_cast<int>(calls));
  }
  return std::max(seconds, kLeast_s);
}

// Rank 0 looks while all others sleep: they wait for a key of the store, in the kernel.
double Measurement::look_at_cpus() {
  const std::shared_ptr<Store> store = bench_.context.store();
  const std::string key = fmt::format("bench/{}/{}", bench_.group.sequence_number(), looks_++);
  double nanoseconds = 0;
  barrier(bench_.control);
  if (work_.rank == 0) {
    nanoseconds = canary_ns(bench_.cpus);
    store->set(key, "awake");
  } else {
    store->wait(std::array{key});
  }
  barrier(bench_.control);
  if (work_.rank == 0) {
    store->delete_key(key);
  }
  return nanoseconds;
}

Row Measurement::run() {
  barrier(bench_.control);
  std::size_t wrong = 0;
  if (bench_.options.check) {
    wrong = static_cast<std::size_t>(largest(static_cast<double>(count_wrong(row_, work_))));
  }
  clear_input(work_);
  const double estimated = estimate();
  int reps = bench_.options.reps;
  while (reps > 2 && reps * estimated > bench_.options.cap_s) {
    --reps;
  }
  const double calls = std::clamp(bench_.options.time_s / (reps * estimated), 1.0, kMostIterations);
  const double before = look_at_cpus();
  std::vector<double> seconds;
  for (int rep = 0; rep < reps; ++rep) {
    seconds.push_back(seconds_per_call(static_cast<int>(calls)));
  }
  const double after = look_at_cpus();
  Row row = finish(std::move(seconds));
  row.wrong = wrong;
  row.canary_ns = (before + after) / 2;
  row.placement = placement(before, after);
  return row;
}

Row Measurement::finish(std::vector<double> seconds) const {
  std::sort(seconds.begin(), seconds.end());
  const double messages = row_.messages_per_call * work_.layout.window;
  const double middle = seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2];
  Row row{.op = &row_,
          .dtype = work_.layout.dtype,
          .ranks = work_.ranks,
          .bytes = work_.layout.asked_bytes,
          .elements = work_.layout.elements,
          .median_s = middle / 2 / messages,
          .min_s = seconds.front() / messages,
          .max_s = seconds.back() / messages};
  row.algbw_GBps = static_cast<double>(work_.layout.bytes()) / row.median_s * 1e-9;
  row.busbw_GBps = row.algbw_GBps * spec(row_.op).bus_factor(work_.ranks);
  return row;
}

}  // namespace

void measure_all(Bench& bench, const std::function<void(const Row&)>& report) {
  const int ranks = bench.group.size();
  const auto measure = [&](const BenchOp& row, DType dtype, std::size_t bytes) {
    Measurement measurement(bench, row, layout_of(row, dtype, bytes, ranks));
    report(measurement.run());
    barrier(bench.control);
  };
  for (const BenchOp* row : bench.options.ops) {
    if (row->sizing == Sizing::pairs && ranks % 2 != 0) {
      continue;  // somebody would have no mate
    }
    if (row->sizing == Sizing::none) {
      measure(*row, DType::f32, 0);
      continue;
    }
    for (const DType dtype : dtypes_of(*row, bench.options)) {
      for (std::size_t bytes = bench.options.min_bytes; bytes <= bench.options.max_bytes;
           bytes *= bench.options.factor) {
        measure(*row, dtype, bytes);
      }
    }
  }
}

}  // namespace tutti::cli
