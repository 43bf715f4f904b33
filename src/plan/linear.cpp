// Linear. One round in which everything is in flight at once and no block passes through a third
// rank. Partners are taken in order of distance, so that ranks do not all start with rank 0.
//
// gather, scatter: the root receives or sends n-1 blocks. broadcast: the root sends the whole data
// n-1 times. all_to_all: every rank sends and receives n-1 blocks, the transports sort out the
// order.
//
// Cost: 1 round. gather, scatter: the root moves B (n-1)/n bytes, the least there is, B the bytes
// of all blocks; broadcast: the root sends B (n-1); all_to_all: B (n-1)/n sent per rank. The number
// of messages in flight grows with n.
#include "plan/linear.hpp"

#include "plan/steps.hpp"

namespace tutti {

using step::block;

Plan linear_gather(Seat me, int root) {
  Plan plan;
  if (me.rank != root) {
    step::add(plan, {step::send(root, block(Buffer::in, 0))});
    return plan;
  }
  std::vector<Step> steps{step::copy(block(Buffer::in, 0), block(Buffer::out, root))};
  for (int distance = 1; distance < me.size; ++distance) {
    steps.push_back(step::recv(me.at(distance), block(Buffer::out, me.at(distance))));
  }
  step::add(plan, std::move(steps));
  return plan;
}

Plan linear_scatter(Seat me, int root) {
  Plan plan;
  if (me.rank != root) {
    step::add(plan, {step::recv(root, block(Buffer::out, 0))});
    return plan;
  }
  std::vector<Step> steps{step::copy(block(Buffer::in, root), block(Buffer::out, 0))};
  for (int distance = 1; distance < me.size; ++distance) {
    steps.push_back(step::send(me.at(distance), block(Buffer::in, me.at(distance))));
  }
  step::add(plan, std::move(steps));
  return plan;
}

Plan linear_broadcast(Seat me, int root) {
  const Range all = step::whole(Buffer::out, me.size);
  Plan plan;
  if (me.rank != root) {
    step::add(plan, {step::recv(root, all)});
    return plan;
  }
  std::vector<Step> steps;
  for (int distance = 1; distance < me.size; ++distance) {
    steps.push_back(step::send(me.at(distance), all));
  }
  step::add(plan, std::move(steps));
  return plan;
}

Plan linear_all_to_all(Seat me) {
  std::vector<Step> steps{step::copy(block(Buffer::in, me.rank), block(Buffer::out, me.rank))};
  for (int distance = 1; distance < me.size; ++distance) {
    steps.push_back(step::send(me.at(distance), block(Buffer::in, me.at(distance))));
    steps.push_back(step::recv(me.at(-distance), block(Buffer::out, me.at(-distance))));
  }
  Plan plan;
  step::add(plan, std::move(steps));
  return plan;
}

}  // namespace tutti
