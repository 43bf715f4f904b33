// Dissemination: every rank hears of every other one in ceil(log2 n) rounds, for any n.
#pragma once

#include "plan/plan.hpp"

namespace tutti {

Plan dissemination_barrier(Seat me);
/// Bruck's all_gather: the same pattern, carrying blocks.
Plan bruck_all_gather(Seat me);

}  // namespace tutti
