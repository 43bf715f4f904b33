// The stopwatch of `tutti bench`: back-to-back calls after a barrier, seen from all ranks. Every
// figure is that of the rank that has most of it, and equal on all ranks.
#pragma once

#include "cli/bench_ops.hpp"

#include <tutti/group.hpp>
#include <tutti/tensor.hpp>

#include <vector>

namespace tutti::cli {

/// What a rank spent, beside time: CPU seconds of the process, user and system, and page faults.
struct Usage {
  double cpu_s = 0;
  double faults = 0;
};

class Timer {
 public:
  /// `control`: the group of barriers and figures; not the one that is measured.
  explicit Timer(Group control) : control_(std::move(control)) {}

  /// The largest of the ranks' values.
  double largest(double value);
  /// Mean over `calls` calls. `used`, if there is one, grows by what this rank spent in them.
  double seconds_per_call(const BenchOp& row, Workload& work, int calls, Usage* used = nullptr);
  /// Roughly, while it warms up.
  double estimate(const BenchOp& row, Workload& work);
  /// Every one of `calls` calls timed by itself, the slowest rank's time each.
  std::vector<double> single_calls(const BenchOp& row, Workload& work, int calls);

 private:
  Group control_;
  Tensor figure_ = Tensor::zeros({1}, DType::f64);
};

/// The middle value, the mean of two if there are two. `values` are in order.
double median(const std::vector<double>& values);
/// The smallest value that `share` of them do not exceed.
double quantile(const std::vector<double>& values, double share);

}  // namespace tutti::cli
