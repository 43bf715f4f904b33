// The full check of an operation's result before it is timed. Contributions are small integers,
// different at nearly every place and on every rank, and repeat after kPeriod elements, so that the
// expected result of any size is one period computed in double precision. They and their results
// are exact in every element type or rounded once, so that equal means equal bits.
#pragma once

#include "cli/bench_ops.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace tutti::cli {

/// A prime: shares of any usual size begin at different places of the period.
inline constexpr std::size_t kPeriod = 1021;

/// A buffer's contents: element i is number i % kPeriod of a table.
class Pattern {
 public:
  Pattern(DType dtype, const std::function<std::complex<double>(std::size_t place)>& value);

  struct Range {
    std::size_t offset = 0;    ///< element of the buffer where it begins
    std::size_t place = 0;     ///< of the pattern at that element
    std::size_t elements = 0;  ///< its length
  };
  void fill(const Tensor& target, Range range) const;
  /// Elements that differ.
  std::size_t differences(const Tensor& actual, Range range) const;

 private:
  DType dtype_;
  std::vector<std::byte> table_;  // two periods: one period from any place is in one piece
};

/// What `rank` contributes when `op` will combine the contributions.
Pattern contribution(DType dtype, ReduceOp op, int rank);
/// What the contributions of `ranks` ranks give. The factor of premul_sum is the same on all ranks.
Pattern reduction(DType dtype, const ReduceOptions& reduce, int ranks);

/// Runs the operation of `row` once (broadcast: from the first and from the last rank) on patterns
/// and returns how many elements of this rank's result are wrong.
std::size_t count_wrong(const BenchOp& row, Workload& work);

}  // namespace tutti::cli
