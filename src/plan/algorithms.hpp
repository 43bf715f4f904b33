// The table of message plans: which algorithms an operation has. Selection, `--algorithm`, the
// checker's tests and docs/algorithms.md all go by this table; adding an algorithm is adding a row.
#pragma once

#include "plan/plan.hpp"
#include "plan/spec.hpp"

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// How an algorithm forms its sums; of no meaning for operations that only move data.
enum class Sum : std::uint8_t {
  in_passing,  // partial sums travel, in the accumulator's dtype, in an order the plan fixes
  rank_order,  // inputs travel unchanged and are summed once, by rank: serves deterministic mode
               // and narrow floats; a factor per rank (premul_sum) has to be applied to the input
               // before
};

struct Algorithm {
  Op op{};
  std::string_view name{};
  /// Pure; `root` is 0 and of no effect for operations without one.
  Plan (*plan)(Seat me, int root) = nullptr;
  bool (*suits)(Seat me) = nullptr;
  Sum sum = Sum::in_passing;
};

extern const std::span<const Algorithm> kMessageAlgorithms;

/// The row of that name, or null.
const Algorithm* find_algorithm(Op op, std::string_view name);
/// "ring, halving_doubling": the names an operation has, for messages.
std::string algorithm_names(Op op);

}  // namespace tutti
