// Ring. The data is cut into n blocks, one per rank; n is the world size, B the bytes of all
// blocks.
//
// reduce_scatter: block b starts at rank b + 1 and travels once round the ring; every rank it
// reaches adds its own contribution, and it ends, complete, at rank b. In round s = 1 .. n-1 rank r
// sends block r - s and receives block r - s - 1:
//
//     round 1          round 2          (n = 3; an arrow carries one block)
//     0 -2-> 1         0 -1-> 1
//     1 -0-> 2         1 -2-> 2
//     2 -1-> 0         2 -0-> 0
//
// all_gather: the finished blocks travel once round the ring and are copied. In round s = 0 .. n-2
// rank r sends block r - s and receives block r - s - 1.
//
// Cost: reduce_scatter and all_gather n-1 rounds, B (n-1)/n bytes sent per rank; all_reduce both,
// which is the least any algorithm sends. Every block is combined in one place, so all ranks get
// the same bits. Latency grows with n: for large data. Paper: Patarasuk, Yuan: Bandwidth optimal
// all-reduce algorithms for clusters of workstations, J. Parallel Distrib. Comput. 69 (2009).
//
// broadcast: van de Geijn's scatter and all_gather. The root's blocks go down a binomial tree (see
// tree.cpp), each subtree getting its own blocks, then travel round the ring; a block is not sent
// to a rank that has it from the tree, so nothing is ever sent to the root. Cost: ceil(log2 n) +
// n-1 rounds; the root sends at most 2 B (n-1)/n bytes. Paper: Barnett, Gupta, Payne, Shuler, van
// de Geijn, Watts: Interprocessor collective communication library (InterCom), SHPCC 1994.
//
// reduce: the ring reduce_scatter, then one round in which the root receives all the other shares.
// Cost: n rounds, B bytes sent per rank, 2 B (n-1)/n received by the root.
#include "plan/ring.hpp"

#include "plan/steps.hpp"
#include "plan/tree.hpp"

namespace tutti {

using step::block;

namespace {

/// Leaves the complete, unfinished block `rank` in acc.
Plan reduce_shares(Seat me) {
  Plan plan;
  if (me.size == 1) {
    step::add(plan, {step::load(block(Buffer::in, 0))});
  }
  for (int s = 1; s < me.size; ++s) {
    const Range outgoing = block(Buffer::acc, me.at(-s));
    const Range incoming = block(Buffer::acc, me.at(-s - 1));
    std::vector<Step> steps;
    if (s == 1) {
      steps.push_back(step::load(outgoing));
    }
    steps.push_back(step::load(incoming));  // just before it is combined, while it is near
    steps.push_back(step::send(me.next(), outgoing));
    steps.push_back(step::recv_reduce(me.prev(), incoming));
    step::add(plan, std::move(steps));
  }
  return plan;
}

}  // namespace

Plan ring_gather_shares(Seat me) {
  Plan plan;
  for (int s = 0; s < me.size - 1; ++s) {
    step::add(plan, {step::send(me.next(), block(Buffer::out, me.at(-s))),
                     step::recv(me.prev(), block(Buffer::out, me.at(-s - 1)))});
  }
  return plan;
}

Plan ring_reduce_scatter(Seat me) {
  Plan plan = reduce_shares(me);
  step::add(plan, {step::finish(block(Buffer::acc, me.rank), block(Buffer::out, 0))});
  return plan;
}

Plan ring_all_gather(Seat me) {
  Plan plan;
  step::add(plan, {step::copy(block(Buffer::in, 0), block(Buffer::out, me.rank))});
  return then(std::move(plan), ring_gather_shares(me));
}

Plan ring_all_reduce(Seat me) {
  Plan plan = reduce_shares(me);
  step::add(plan, {step::finish(block(Buffer::acc, me.rank), block(Buffer::out, me.rank))});
  return then(std::move(plan), ring_gather_shares(me));
}

Plan ring_broadcast(Seat me, int root) {
  Plan plan = tree_scatter_shares(me, root);
  const TreeNode mine = tree_node(me, root);
  const TreeNode after = tree_node({me.next(), me.size}, root);
  for (int s = 0; s < me.size - 1; ++s) {
    // Block r belongs to rank r, so its place in the tree is its distance from the root.
    const int outgoing = me.at(-s);
    const int incoming = me.at(-s - 1);
    std::vector<Step> steps;
    if (!after.covers(Seat{root, me.size}.distance_to(outgoing))) {
      steps.push_back(step::send(me.next(), block(Buffer::out, outgoing)));
    }
    if (!mine.covers(Seat{root, me.size}.distance_to(incoming))) {
      steps.push_back(step::recv(me.prev(), block(Buffer::out, incoming)));
    }
    step::add(plan, std::move(steps));
  }
  return plan;
}

Plan ring_reduce(Seat me, int root) {
  Plan plan = reduce_shares(me);
  std::vector<Step> gather;
  if (me.rank != root) {
    gather.push_back(step::send(root, block(Buffer::acc, me.rank)));
  } else {
    for (int distance = 1; distance < me.size; ++distance) {
      gather.push_back(step::recv(me.at(distance), block(Buffer::acc, me.at(distance))));
    }
  }
  step::add(plan, std::move(gather));
  if (me.rank == root) {
    const Range all = step::whole(Buffer::acc, me.size);
    step::add(plan, {step::finish(all, step::same(Buffer::out, all))});
  }
  return plan;
}

}  // namespace tutti
