// Linear: the root talks to every rank directly; for few ranks, or blocks too large to pass on.
#pragma once

#include "plan/plan.hpp"

namespace tutti {

Plan linear_gather(Seat me, int root);
Plan linear_scatter(Seat me, int root);
Plan linear_broadcast(Seat me, int root);
Plan linear_all_to_all(Seat me);

}  // namespace tutti
