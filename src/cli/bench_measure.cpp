#include "cli/bench_measure.hpp"

#include "cli/bench_canary.hpp"
#include "cli/bench_check.hpp"
#include "cli/bench_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tutti::cli {
namespace {

constexpr double kMostIterations = 20000;
// Calls that are timed one by one.
constexpr double kFewestSingles = 10;
constexpr double kMostSingles = 2000;

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
  double look_at_cpus();
  Row finish(std::vector<double> seconds) const;
  void add_stats(Row& row, double estimated);

  Bench& bench_;
  const BenchOp& row_;
  Workload work_{};
  Timer timer_{bench_.control};
  Usage used_{};      ///< by the timed loops
  double calls_ = 0;  ///< of the timed loops
  int looks_ = 0;
};

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
    wrong = static_cast<std::size_t>(timer_.largest(static_cast<double>(count_wrong(row_, work_))));
  }
  clear_input(work_);
  const double estimated = timer_.estimate(row_, work_);
  int reps = bench_.options.reps;
  while (reps > 2 && reps * estimated > bench_.options.cap_s) {
    --reps;
  }
  const double calls = std::clamp(bench_.options.time_s / (reps * estimated), 1.0, kMostIterations);
  const double before = look_at_cpus();
  std::vector<double> seconds;
  for (int rep = 0; rep < reps; ++rep) {
    seconds.push_back(timer_.seconds_per_call(row_, work_, static_cast<int>(calls),
                                              bench_.options.stats ? &used_ : nullptr));
    calls_ += std::floor(calls);
  }
  const double after = look_at_cpus();
  Row row = finish(std::move(seconds));
  row.wrong = wrong;
  row.canary_ns = (before + after) / 2;
  row.placement = placement(before, after);
  if (bench_.options.stats) {
    add_stats(row, estimated);
  }
  return row;
}

/// Latencies are taken in a loop of their own, so that reading the clock does not slow down the
/// loops of the mean.
void Measurement::add_stats(Row& row, double estimated) {
  const double messages = row_.messages_per_call * work_.layout.window;
  row.cpu_s = timer_.largest(used_.cpu_s) / calls_ / messages;
  row.faults = timer_.largest(used_.faults) / calls_ / messages;
  const double singles =
      std::clamp(bench_.options.time_s / estimated, kFewestSingles, kMostSingles);
  std::vector<double> times = timer_.single_calls(row_, work_, static_cast<int>(singles));
  std::sort(times.begin(), times.end());
  row.p50_s = quantile(times, 0.5) / messages;
  row.p99_s = quantile(times, 0.99) / messages;
}

Row Measurement::finish(std::vector<double> seconds) const {
  std::sort(seconds.begin(), seconds.end());
  const double messages = row_.messages_per_call * work_.layout.window;
  Row row{.op = &row_,
          .dtype = work_.layout.dtype,
          .ranks = work_.ranks,
          .bytes = work_.layout.asked_bytes,
          .elements = work_.layout.elements,
          .median_s = median(seconds) / messages,
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
