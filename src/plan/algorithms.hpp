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
  rank_order,  // every sum has the tree of rank order, ((0 + 1) + 2) + ..., and is rounded once:
               // serves deterministic mode and narrow floats. Who adds up may see inputs of others
               // as they were given, so the factors of premul_sum are applied before (message_fits)
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
