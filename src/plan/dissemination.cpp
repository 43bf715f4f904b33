// Dissemination. In the round of distance d = 1, 2, 4, ... < n every rank sends to one d away and
// hears from one d away on the other side. After that round it has heard, directly or not, from the
// 2d ranks next to it on that side; after the last round from all.
//
// barrier: rank r signals r + d and waits for r - d; the messages are empty. A rank leaves only
// when every rank has entered. all_gather (Bruck): rank r holds blocks r .. r+d-1, sends them to r
// - d and receives blocks r+d .. r+2d-1 from r + d; the last round moves only the n-d that are
// missing. Ranges of blocks wrap, so nothing has to be rotated into place at the end.
//
// Cost: ceil(log2 n) rounds; barrier no bytes; all_gather B (n-1)/n bytes sent per rank, B the
// bytes of all blocks: the least rounds and the least bytes, but its messages are long and go far.
// Papers: Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, Int. J. Parallel
// Program. 17 (1988); Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all
// communications in multiport message-passing systems, IEEE Trans. Parallel Distrib. Syst. 8
// (1997).
#include "plan/dissemination.hpp"

#include "plan/steps.hpp"

#include <algorithm>

namespace tutti {

Plan dissemination_barrier(Seat me) {
  constexpr Range kNothing{Buffer::in, 0, 0};
  Plan plan;
  for (int distance = 1; distance < me.size; distance *= 2) {
    step::add(plan,
              {step::send(me.at(distance), kNothing), step::recv(me.at(-distance), kNothing)});
  }
  return plan;
}

Plan bruck_all_gather(Seat me) {
  Plan plan;
  step::add(plan, {step::copy(step::block(Buffer::in, 0), step::block(Buffer::out, me.rank))});
  for (int distance = 1; distance < me.size; distance *= 2) {
    const int count = std::min(distance, me.size - distance);
    step::add(plan, {step::send(me.at(-distance), {Buffer::out, me.rank, count}),
                     step::recv(me.at(distance), {Buffer::out, me.at(distance), count})});
  }
  return plan;
}

}  // namespace tutti
