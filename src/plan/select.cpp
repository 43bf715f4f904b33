#include "plan/select.hpp"

#include "plan/direct_plan.hpp"
#include "plan/hierarchy.hpp"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

struct DirectName {
  std::string_view name;
  Protocol protocol;
};
constexpr std::array kDirectNames{DirectName{"direct_inlined", Protocol::inlined},
                                  DirectName{"direct_arrival", Protocol::arrival},
                                  DirectName{"direct_staged", Protocol::staged}};
constexpr std::string_view kTwoLevelName = "two_level";

/// Bytes a rank puts into its slot: one block, or one per rank.
std::size_t contribution(const SelectionFacts& facts) {
  const std::size_t blocks =
      spec(facts.op).block_per_rank() ? static_cast<std::size_t>(facts.ranks) : 1;
  return facts.block_bytes * blocks;
}

bool protocol_fits(const SelectionFacts& facts, Protocol protocol) {
  if (!facts.one_host || facts.pairwise_counts || !has_direct_plan(facts.op, protocol)) {
    return false;
  }
  return protocol == Protocol::staged ? facts.block_bytes != 0
                                      : contribution(facts) <= kInlineBytes;
}

Selection direct(const SelectionFacts& facts, const Thresholds& thresholds, Protocol protocol) {
  return {.kind = Selection::Kind::direct,
          .protocol = protocol,
          .segment_bytes = facts.oversubscribed ? thresholds.segment_crowded : thresholds.segment,
          .lookahead = facts.oversubscribed ? 1 : 0};
}

Selection choose_direct(const SelectionFacts& facts, const Thresholds& thresholds) {
  const std::size_t bytes = contribution(facts);
  if (facts.oversubscribed && facts.ranks > 2 && bytes <= thresholds.arrival &&
      protocol_fits(facts, Protocol::arrival)) {
    return direct(facts, thresholds, Protocol::arrival);
  }
  const std::size_t limit = facts.oversubscribed ? thresholds.arrival : thresholds.inlined;
  const bool small = facts.op == Op::barrier || bytes <= limit;
  return direct(facts, thresholds, small ? Protocol::inlined : Protocol::staged);
}

std::string_view message_name(const SelectionFacts& facts, const Thresholds& thresholds) {
  const std::size_t bytes = facts.block_bytes;
  const bool ordered =
      facts.deterministic || (is_narrow(facts.dtype) && bytes > thresholds.doubling);
  switch (facts.op) {
    case Op::all_reduce:
      return ordered ? "pairwise" : bytes <= thresholds.doubling ? "recursive_doubling" : "ring";
    case Op::reduce:
      return ordered ? "pairwise" : bytes <= thresholds.doubling ? "binomial" : "ring";
    case Op::broadcast:
      return bytes <= thresholds.doubling ? "binomial" : "ring";
    case Op::all_gather:
      return bytes <= thresholds.doubling && !facts.uneven ? "bruck" : "ring";
    case Op::reduce_scatter:
      return ordered ? "pairwise" : "ring";
    case Op::scatter:
    case Op::gather:
      return bytes <= thresholds.doubling ? "binomial" : "linear";
    case Op::all_to_all:
      return "pairwise";
    case Op::barrier:
    case Op::send:
    case Op::recv:
      break;
  }
  return "dissemination";
}

bool message_fits(const SelectionFacts& facts, const Algorithm& algorithm) {
  // Who sums inputs of others in rank order does not know their factors.
  if (algorithm.sum == Sum::rank_order && facts.reduce == ReduceOp::premul_sum &&
      !facts.deterministic) {
    return false;
  }
  return algorithm.suits({.rank = 0, .size = facts.ranks}) &&
         (!facts.deterministic || !spec(facts.op).reduces || algorithm.sum == Sum::rank_order);
}

/// Two-level plans do not sum in rank order.
bool two_level_fits(const SelectionFacts& facts) {
  return facts.two_level && has_two_level_plan(facts.op) &&
         !(spec(facts.op).reduces && facts.deterministic);
}

bool force(const SelectionFacts& facts, const Thresholds& thresholds, Selection& selection) {
  for (const DirectName& row : kDirectNames) {
    if (facts.forced == row.name && protocol_fits(facts, row.protocol)) {
      selection = direct(facts, thresholds, row.protocol);
      return true;
    }
  }
  if (facts.forced == kTwoLevelName && two_level_fits(facts)) {
    selection = {.kind = Selection::Kind::two_level,
                 .large = facts.block_bytes > thresholds.doubling};
    return true;
  }
  const Algorithm* algorithm = find_algorithm(facts.op, facts.forced);
  if (algorithm != nullptr && message_fits(facts, *algorithm)) {
    selection = {.kind = Selection::Kind::message, .algorithm = algorithm};
    return true;
  }
  return false;
}

}  // namespace

Selection select(const SelectionFacts& facts, const Thresholds& thresholds) {
  Selection selection;
  if (!facts.forced.empty() && force(facts, thresholds, selection)) {
    return selection;
  }
  if (facts.one_host && !facts.pairwise_counts && has_direct_plan(facts.op, Protocol::inlined)) {
    return choose_direct(facts, thresholds);
  }
  if (two_level_fits(facts)) {
    return {.kind = Selection::Kind::two_level, .large = facts.block_bytes > thresholds.doubling};
  }
  return {.kind = Selection::Kind::message,
          .algorithm = find_algorithm(facts.op, message_name(facts, thresholds))};
}

std::string_view name(const Selection& selection) {
  switch (selection.kind) {
    case Selection::Kind::direct:
      return std::find_if(kDirectNames.begin(), kDirectNames.end(),
                          [&](const DirectName& row) { return row.protocol == selection.protocol; })
          ->name;
    case Selection::Kind::two_level:
      return kTwoLevelName;
    case Selection::Kind::message:
      break;
  }
  return selection.algorithm->name;
}

std::vector<std::string_view> selectable_names() {
  std::vector<std::string_view> names;
  for (const DirectName& row : kDirectNames) {
    names.push_back(row.name);
  }
  names.push_back(kTwoLevelName);
  for (const Algorithm& row : kMessageAlgorithms) {
    if (std::find(names.begin(), names.end(), row.name) == names.end()) {
      names.push_back(row.name);
    }
  }
  return names;
}

std::string selectable_names(Op op) {
  std::string names;
  for (const DirectName& row : kDirectNames) {
    if (has_direct_plan(op, row.protocol)) {
      names += std::string(row.name) + ", ";
    }
  }
  if (has_two_level_plan(op)) {
    names += std::string(kTwoLevelName) + ", ";
  }
  return names + algorithm_names(op);
}

bool is_selectable(Op op, std::string_view name) {
  for (const DirectName& row : kDirectNames) {
    if (row.name == name) {
      return has_direct_plan(op, row.protocol);
    }
  }
  return name == kTwoLevelName ? has_two_level_plan(op) : find_algorithm(op, name) != nullptr;
}

}  // namespace tutti
