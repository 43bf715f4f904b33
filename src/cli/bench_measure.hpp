// The measuring loop of `tutti bench`, the same as that of the peers it is compared with
// (bench/peers/README.md): check in full, warm up, choose the number of iterations, then several
// loops of back-to-back calls, each after a barrier. A loop's time is the mean per call on the
// slowest rank.
#pragma once

#include "cli/bench_options.hpp"

#include <tutti/group.hpp>

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// One line of the report.
struct Row {
  const BenchOp* op = nullptr;
  DType dtype = DType::f32;
  int ranks = 1;
  std::size_t bytes = 0;     ///< as asked for
  std::size_t elements = 0;  ///< of the whole buffer
  std::size_t wrong = 0;     ///< elements, on the rank that has most of them
  double median_s = 0;
  double min_s = 0;
  double max_s = 0;
  double algbw_GBps = 0;
  double busbw_GBps = 0;
  std::string_view placement = "-";
  double canary_ns = 0;
  // With BenchOptions::stats:
  double p50_s = 0;  ///< of single calls, the slowest rank's time each
  double p99_s = 0;
  double cpu_s = 0;   ///< user and system per call, of the rank that used most
  double faults = 0;  ///< page faults per call, of the rank that had most
};

/// What a rank measures with.
struct Bench {
  const BenchOptions& options;
  Context& context;
  Group control{};          ///< barriers and figures between the loops
  Group group{};            ///< what is measured; has the algorithm that was asked for
  std::vector<int> cpus{};  ///< of the canary
};

/// Measures everything that was asked for; each row is given to `report` on every rank as soon as
/// it is known.
void measure_all(Bench& bench, const std::function<void(const Row&)>& report);

}  // namespace tutti::cli
