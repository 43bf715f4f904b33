// Recursive doubling and halving. c is the largest power of two <= n; only c ranks, the core, take
// part in the exchanges. The x = n - c ranks too many are folded first: of each pair (2i, 2i+1)
// with i < x the odd one, the guest, gives its whole contribution to the even one, its host, and
// gets its result from it at the end. Core places 0 .. c-1 follow the order of ranks: place p is
// rank p + min(p, x), and it answers for its own block and its guest's, so that the blocks of
// neighbouring places lie together.
//
// recursive doubling all_reduce: in the round of distance d = 1, 2, .. c/2 places p and p XOR d
// swap everything they have and both combine it. The lower rank's operand comes first on either
// side and places follow ranks, so that all ranks end with one and the same expression: equal bits.
//
// halving: places lo .. hi-1 share their blocks; each swaps with the place half as far into the
// other half, giving the other half's blocks and combining its own; then each half goes on alone,
// until every place has just its own blocks, complete. doubling: the same exchanges backwards
// gather finished blocks. Together they are Rabenseifner's all_reduce; halving alone
// reduce_scatter.
//
// Cost (B the bytes of all blocks), per core rank: recursive doubling log2 c rounds of B bytes;
// halving log2 c rounds, B (c-1)/c bytes, all_reduce twice that. Folding adds 2 rounds: a guest
// sends B, its host sends back B (all_reduce) or one block (reduce_scatter).
// Papers: Thakur, Rabenseifner, Gropp (see tree.cpp); Rabenseifner: Optimization of collective
// reduction operations, ICCS 2004.
#include "plan/doubling.hpp"

#include "plan/steps.hpp"

#include <algorithm>
#include <bit>

namespace tutti {

using step::block;
using step::whole;

namespace {

/// Where a rank stands among core and guests.
struct Fold {
  int size;
  int core;   // places
  int extra;  // guests

  explicit Fold(int world_size)
      : size(world_size),
        core(static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)))),
        extra(world_size - core) {}

  bool is_guest(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  bool has_guest(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  int place(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank(int place) const { return place + std::min(place, extra); }
  /// Blocks of places lo .. hi-1; the first block of a place has its rank's number.
  Range blocks(Buffer buffer, int lo, int hi) const {
    const int end = hi == core ? size : rank(hi);
    return {buffer, rank(lo), end - rank(lo)};
  }
};

/// Places lo .. hi-1 and where `place` is among them.
struct Halves {
  int lo;
  int hi;
  int mid() const { return lo + (hi - lo) / 2; }
  Halves half_of(int place) const { return place < mid() ? Halves{lo, mid()} : Halves{mid(), hi}; }
  Halves half_without(int place) const {
    return place < mid() ? Halves{mid(), hi} : Halves{lo, mid()};
  }
  int partner_of(int place) const {
    return place < mid() ? place + (mid() - lo) : place - (mid() - lo);
  }
};

/// Loads everything; a host takes its guest's contribution in. For core ranks.
Plan fold_in(const Fold& fold, Seat me) {
  const Range all = whole(Buffer::acc, me.size);
  std::vector<Step> steps{step::load(all)};
  if (fold.has_guest(me.rank)) {
    steps.push_back(step::recv_reduce(me.rank + 1, all));
  }
  Plan plan;
  step::add(plan, std::move(steps));
  return plan;
}

/// The halves that contain `place`, from all places down to two.
std::vector<Halves> descent(const Fold& fold, int place) {
  std::vector<Halves> levels;
  for (Halves at{0, fold.core}; at.hi - at.lo > 1; at = at.half_of(place)) {
    levels.push_back(at);
  }
  return levels;
}

/// Leaves the place's own blocks complete, unfinished, in acc. For core ranks, after fold_in.
Plan halve(const Fold& fold, Seat me) {
  const int place = fold.place(me.rank);
  Plan plan;
  for (const Halves& level : descent(fold, place)) {
    const int peer = fold.rank(level.partner_of(place));
    const Halves kept = level.half_of(place);
    const Halves given = level.half_without(place);
    step::add(plan, {step::send(peer, fold.blocks(Buffer::acc, given.lo, given.hi)),
                     step::recv_reduce(peer, fold.blocks(Buffer::acc, kept.lo, kept.hi))});
  }
  return plan;
}

/// Gathers the finished blocks of all places in out: `halve` backwards.
Plan redouble(const Fold& fold, Seat me) {
  const int place = fold.place(me.rank);
  std::vector<Halves> levels = descent(fold, place);
  std::reverse(levels.begin(), levels.end());
  Plan plan;
  for (const Halves& level : levels) {
    const int peer = fold.rank(level.partner_of(place));
    const Halves own = level.half_of(place);
    const Halves other = level.half_without(place);
    step::add(plan, {step::send(peer, fold.blocks(Buffer::out, own.lo, own.hi)),
                     step::recv(peer, fold.blocks(Buffer::out, other.lo, other.hi))});
  }
  return plan;
}

/// A guest gives everything to its host and gets the whole result back.
Plan all_reduce_as_guest(Seat me) {
  const Range all = whole(Buffer::acc, me.size);
  Plan plan;
  step::add(plan, {step::load(all), step::send(me.rank - 1, all)});
  step::add(plan, {step::recv(me.rank - 1, step::same(Buffer::out, all))});
  return plan;
}

}  // namespace

Plan recursive_doubling_all_reduce(Seat me) {
  const Fold fold(me.size);
  if (fold.is_guest(me.rank)) {
    return all_reduce_as_guest(me);
  }
  const Range all = whole(Buffer::acc, me.size);
  const Range result = step::same(Buffer::out, all);
  Plan plan = fold_in(fold, me);
  for (int distance = 1; distance < fold.core; distance *= 2) {
    const int peer = fold.rank(fold.place(me.rank) ^ distance);
    step::add(plan, {step::send(peer, all), step::recv_reduce(peer, all)});
  }
  std::vector<Step> end{step::finish(all, result)};
  if (fold.has_guest(me.rank)) {
    end.push_back(step::send(me.rank + 1, result));
  }
  step::add(plan, std::move(end));
  return plan;
}

Plan halving_doubling_all_reduce(Seat me) {
  const Fold fold(me.size);
  if (fold.is_guest(me.rank)) {
    return all_reduce_as_guest(me);
  }
  const int place = fold.place(me.rank);
  const Range mine = fold.blocks(Buffer::acc, place, place + 1);
  Plan plan = then(fold_in(fold, me), halve(fold, me));
  step::add(plan, {step::finish(mine, step::same(Buffer::out, mine))});
  plan = then(std::move(plan), redouble(fold, me));
  if (fold.has_guest(me.rank)) {
    step::add(plan, {step::send(me.rank + 1, whole(Buffer::out, me.size))});
  }
  return plan;
}

Plan halving_reduce_scatter(Seat me) {
  const Fold fold(me.size);
  const Range all = whole(Buffer::acc, me.size);
  const Range own = block(Buffer::acc, me.rank);
  const Step end = step::finish(own, block(Buffer::out, 0));
  Plan plan;
  if (fold.is_guest(me.rank)) {
    step::add(plan, {step::load(all), step::send(me.rank - 1, all)});
    step::add(plan, {step::recv(me.rank - 1, own)});
    step::add(plan, {end});
    return plan;
  }
  plan = then(fold_in(fold, me), halve(fold, me));
  if (fold.has_guest(me.rank)) {
    step::add(plan, {end, step::send(me.rank + 1, block(Buffer::acc, me.rank + 1))});
  } else {
    step::add(plan, {end});
  }
  return plan;
}

}  // namespace tutti
