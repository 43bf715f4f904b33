// Recursive doubling and halving: partners at distance 1, 2, 4, ... for few rounds.
#pragma once

#include "plan/plan.hpp"

namespace tutti {

Plan recursive_doubling_all_reduce(Seat me);
Plan halving_doubling_all_reduce(Seat me);
Plan halving_reduce_scatter(Seat me);

}  // namespace tutti
