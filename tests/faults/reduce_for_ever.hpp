// What ranks do that a test kills.
#pragma once

#include "harness/process_ranks.hpp"

#include <string>

namespace tutti::testing {

/// Reduces 1 MiB for ever; notes "running" once it is under way.
inline std::string reduce_for_ever(Context& context, Reporter& reporter) {
  const Group group = context.world();
  const Tensor tensor = Tensor::full({262144}, 1.0);
  for (int i = 0;; ++i) {
    all_reduce(group, tensor, {.op = ReduceOp::max});
    if (i == 20) {
      reporter.note("running");
    }
  }
}

}  // namespace tutti::testing
