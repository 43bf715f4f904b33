// Binomial tree: few rounds for rooted operations on small data.
#pragma once

#include "plan/plan.hpp"

#include <vector>

namespace tutti {

Plan binomial_broadcast(Seat me, int root);
Plan binomial_reduce(Seat me, int root);
Plan binomial_gather(Seat me, int root);
Plan binomial_scatter(Seat me, int root);

/// A rank's node. Places count from the root, which has place 0; the subtree of a node is the
/// places place .. place+span-1.
struct TreeNode {
  int place = 0;
  int span = 1;
  int parent = -1;              // a rank; -1 for the root
  std::vector<int> children{};  // ranks, the largest subtree first

  bool covers(int other_place) const { return other_place >= place && other_place < place + span; }
};
TreeNode tree_node(Seat me, int root);

/// Broadcast's first half: out block r of the root goes to rank r, passing through its ancestors.
Plan tree_scatter_shares(Seat me, int root);

}  // namespace tutti
