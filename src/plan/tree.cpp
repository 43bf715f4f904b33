// Binomial tree. A rank's place is its distance from the root, p = (rank - root) mod n. The parent
// of place p is p without its lowest set bit; the subtree of p is p .. p + lowbit(p) - 1, cut off
// at n:
//
//     n = 8:   0 -> 4, 2, 1     2 -> 3     4 -> 6, 5     6 -> 7
//
// Down the tree (broadcast, scatter) a rank receives from its parent, then sends to all children in
// one round, the largest subtree first. Up the tree (reduce, gather) it takes from its children,
// the smallest subtree first because that one is ready first, then sends to its parent. reduce
// takes one child per round: two in one round would be combined in the order of arrival. Gather and
// scatter move each subtree's blocks in one message and keep passing ones in hold.
//
// Cost (B the bytes of the whole data; for gather and scatter, of all blocks): floor(log2 n) rounds
// on the longest path, reduce ceil(log2 n). broadcast: the root sends B ceil(log2 n); reduce: every
// rank sends B once; scatter: the root sends B (n-1)/n; gather: an inner rank passes on up to B/2.
// Paper: Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH,
// Int. J. High Perform. Comput. Appl. 19 (2005).
#include "plan/tree.hpp"

#include "plan/steps.hpp"

#include <algorithm>
#include <bit>

namespace tutti {

using step::block;
using step::whole;

namespace {

/// The blocks of a node's whole subtree: block r belongs to rank r, so they lie together, mod n.
Range subtree(const TreeNode& node, Seat me, int root, Buffer buffer) {
  return {buffer, Seat{root, me.size}.at(node.place), node.span};
}

}  // namespace

TreeNode tree_node(Seat me, int root) {
  const Seat top{root, me.size};
  TreeNode node{.place = top.distance_to(me.rank)};
  const int lowest_bit = node.place & -node.place;
  const int reach = node.place == 0
                        ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(me.size)))
                        : lowest_bit;
  node.span = std::min(reach, me.size - node.place);
  if (node.place != 0) {
    node.parent = top.at(node.place - lowest_bit);
  }
  for (int bit = reach / 2; bit > 0; bit /= 2) {
    if (node.place + bit < me.size) {
      node.children.push_back(top.at(node.place + bit));
    }
  }
  return node;
}

Plan binomial_broadcast(Seat me, int root) {
  const TreeNode node = tree_node(me, root);
  const Range all = whole(Buffer::out, me.size);
  Plan plan;
  if (node.parent >= 0) {
    step::add(plan, {step::recv(node.parent, all)});
  }
  std::vector<Step> sends;
  for (const int child : node.children) {
    sends.push_back(step::send(child, all));
  }
  step::add(plan, std::move(sends));
  return plan;
}

Plan binomial_reduce(Seat me, int root) {
  const TreeNode node = tree_node(me, root);
  const Range all = whole(Buffer::acc, me.size);
  Plan plan;
  step::add(plan, {step::load(all)});
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    step::add(plan, {step::recv_reduce(*child, all)});
  }
  if (node.parent >= 0) {
    step::add(plan, {step::send(node.parent, all)});
  } else {
    step::add(plan, {step::finish(all, step::same(Buffer::out, all))});
  }
  return plan;
}

Plan binomial_gather(Seat me, int root) {
  const TreeNode node = tree_node(me, root);
  if (node.parent >= 0 && node.children.empty()) {
    Plan leaf;
    step::add(leaf, {step::send(node.parent, block(Buffer::in, 0))});
    return leaf;
  }
  const Buffer target = node.parent < 0 ? Buffer::out : Buffer::hold;
  std::vector<Step> takes{step::copy(block(Buffer::in, 0), block(target, me.rank))};
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    takes.push_back(
        step::recv(*child, subtree(tree_node({*child, me.size}, root), me, root, target)));
  }
  Plan plan;
  step::add(plan, std::move(takes));
  if (node.parent >= 0) {
    step::add(plan, {step::send(node.parent, subtree(node, me, root, target))});
  }
  return plan;
}

Plan binomial_scatter(Seat me, int root) {
  const TreeNode node = tree_node(me, root);
  Plan plan;
  if (node.parent >= 0 && node.children.empty()) {
    step::add(plan, {step::recv(node.parent, block(Buffer::out, 0))});
    return plan;
  }
  const Buffer source = node.parent < 0 ? Buffer::in : Buffer::hold;
  if (node.parent >= 0) {
    step::add(plan, {step::recv(node.parent, subtree(node, me, root, source))});
  }
  std::vector<Step> gives{step::copy(block(source, me.rank), block(Buffer::out, 0))};
  for (const int child : node.children) {
    gives.push_back(
        step::send(child, subtree(tree_node({child, me.size}, root), me, root, source)));
  }
  step::add(plan, std::move(gives));
  return plan;
}

Plan tree_scatter_shares(Seat me, int root) {
  const TreeNode node = tree_node(me, root);
  Plan plan;
  if (node.parent >= 0) {
    step::add(plan, {step::recv(node.parent, subtree(node, me, root, Buffer::out))});
  }
  std::vector<Step> gives;
  for (const int child : node.children) {
    gives.push_back(
        step::send(child, subtree(tree_node({child, me.size}, root), me, root, Buffer::out)));
  }
  step::add(plan, std::move(gives));
  return plan;
}

}  // namespace tutti
