// Ring: rank r only ever sends to r + 1 and receives from r - 1.
#pragma once

#include "plan/plan.hpp"

namespace tutti {

Plan ring_all_reduce(Seat me);
Plan ring_reduce_scatter(Seat me);
Plan ring_all_gather(Seat me);
/// A binomial scatter of the root's blocks, then a ring that gathers them.
Plan ring_broadcast(Seat me, int root);
/// A ring reduce_scatter, then every share goes straight to the root.
Plan ring_reduce(Seat me, int root);

/// The rounds of a ring all_gather among blocks of `out`, each rank's own block in place.
Plan ring_gather_shares(Seat me);

}  // namespace tutti
