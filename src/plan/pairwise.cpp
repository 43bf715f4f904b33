// Pairwise exchange. In round s = 1 .. n-1 a rank sends to one partner and receives from one: both
// are rank XOR s if n is a power of two, else it sends to r + s and receives from r - s (mod n), so
// that no rank is the target of two messages at once.
//
// all_to_all: block k of the input goes to rank k, where it is block r of the output.
// all_gather: the rank's one block goes to everyone.
// reduce_scatter: block k of the input goes to rank k unchanged, which holds it; when all have
// arrived, rank k combines the n contributions in one pass, in the order of ranks, and rounds once.
// So the result does not depend on n's factorisation or on timing, and narrow floats travel narrow
// though they are summed wide: this serves deterministic mode and f16, bf16, fp8.
// all_reduce: the same, then a ring of the finished shares (ring.cpp). reduce: the same, then each
// rank sends its finished share from hold to the root; only the root writes its output.
//
// Cost (B the bytes of all blocks): n-1 rounds, B (n-1)/n bytes sent per rank; all_reduce 2(n-1)
// rounds and 2 B (n-1)/n; reduce n rounds and B, the root receives 2 B (n-1)/n. Held: B (n-1)/n.
// Paper: Thakur, Rabenseifner, Gropp (see tree.cpp), sections on all-to-all and long
// reduce-scatter.
#include "plan/pairwise.hpp"

#include "plan/ring.hpp"
#include "plan/steps.hpp"

#include <bit>

namespace tutti {

using step::block;

namespace {

struct Partners {
  int target = 0;
  int source = 0;
};

Partners partners(Seat me, int s) {
  if (std::has_single_bit(static_cast<unsigned>(me.size))) {
    return {me.rank ^ s, me.rank ^ s};
  }
  return {me.at(s), me.at(-s)};
}

/// Sends share k of the input to rank k and holds what the others send of this rank's share.
Plan hold_shares(Seat me) {
  Plan plan;
  for (int s = 1; s < me.size; ++s) {
    const auto [target, source] = partners(me, s);
    step::add(plan, {step::send(target, block(Buffer::in, target)),
                     step::recv(source, block(Buffer::hold, source))});
  }
  return plan;
}

}  // namespace

Plan pairwise_all_to_all(Seat me) {
  Plan plan;
  step::add(plan, {step::copy(block(Buffer::in, me.rank), block(Buffer::out, me.rank))});
  for (int s = 1; s < me.size; ++s) {
    const auto [target, source] = partners(me, s);
    step::add(plan, {step::send(target, block(Buffer::in, target)),
                     step::recv(source, block(Buffer::out, source))});
  }
  return plan;
}

Plan pairwise_all_gather(Seat me) {
  Plan plan;
  step::add(plan, {step::copy(block(Buffer::in, 0), block(Buffer::out, me.rank))});
  for (int s = 1; s < me.size; ++s) {
    const auto [target, source] = partners(me, s);
    step::add(plan, {step::send(target, block(Buffer::in, 0)),
                     step::recv(source, block(Buffer::out, source))});
  }
  return plan;
}

Plan pairwise_reduce_scatter(Seat me) {
  Plan plan = hold_shares(me);
  step::add(plan, {step::reduce_held(me.rank, block(Buffer::out, 0))});
  return plan;
}

Plan pairwise_all_reduce(Seat me) {
  Plan plan = hold_shares(me);
  step::add(plan, {step::reduce_held(me.rank, block(Buffer::out, me.rank))});
  return then(std::move(plan), ring_gather_shares(me));
}

Plan pairwise_reduce(Seat me, int root) {
  Plan plan = hold_shares(me);
  if (me.rank != root) {
    const Range result = block(Buffer::hold, me.rank);
    step::add(plan, {step::reduce_held(me.rank, result), step::send(root, result)});
    return plan;
  }
  std::vector<Step> gather{step::reduce_held(me.rank, block(Buffer::out, me.rank))};
  for (int distance = 1; distance < me.size; ++distance) {
    gather.push_back(step::recv(me.at(distance), block(Buffer::out, me.at(distance))));
  }
  step::add(plan, std::move(gather));
  return plan;
}

}  // namespace tutti
