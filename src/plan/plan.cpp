// Joining plans.
#include "plan/plan.hpp"

#include <iterator>
#include <utility>

namespace tutti {

Plan then(Plan first, Plan second) {
  first.rounds.insert(first.rounds.end(), std::make_move_iterator(second.rounds.begin()),
                      std::make_move_iterator(second.rounds.end()));
  return first;
}

}  // namespace tutti
