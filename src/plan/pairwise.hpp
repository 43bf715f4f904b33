// Pairwise: every rank exchanges directly with every other one, one partner per round.
#pragma once

#include "plan/plan.hpp"

namespace tutti {

Plan pairwise_all_to_all(Seat me);
Plan pairwise_all_gather(Seat me);
/// Reduces once, in rank order, from the other ranks' unchanged inputs; so do the two below.
Plan pairwise_reduce_scatter(Seat me);
Plan pairwise_all_reduce(Seat me);
Plan pairwise_reduce(Seat me, int root);

}  // namespace tutti
