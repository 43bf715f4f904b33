#include "plan/select.hpp"

#include "plan/direct_plan.hpp"
#include "plan/hierarchy.hpp"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array kProtocols{Protocol::inlined, Protocol::arrival, Protocol::staged};
constexpr std::string_view kTwoLevelName = "two_level";
constexpr Thresholds kThresholds{};

const Protocol* find_protocol(std::string_view wanted) {
  const auto* const found = std::find_if(kProtocols.begin(), kProtocols.end(),
                                         [&](Protocol row) { return name(row) == wanted; });
  return found == kProtocols.end() ? nullptr : found;
}

bool protocol_fits(const SelectionFacts& facts, Protocol protocol) {
  if (!facts.one_host || facts.pairwise_counts || !has_direct_plan(facts.op, protocol)) {
    return false;
  }
  return protocol == Protocol::staged ? facts.block_bytes != 0
                                      : contribution(facts) <= kInlineBytes;
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

Selection two_level(const SelectionFacts& facts) {
  return {.kind = Selection::Kind::two_level, .large = facts.block_bytes > kThresholds.doubling};
}

/// Whether the row is about this call, but for the size.
bool about(const TuningRow& row, const SelectionFacts& facts) {
  using Transport = TuningRow::Transport;
  return (!row.op || *row.op == facts.op) && row.ranks.contains(facts.ranks) &&
         (row.transport == Transport::any || (row.transport == Transport::shm) == facts.one_host) &&
         (row.transport != Transport::shm || row.per_cpu.contains(facts.ranks_per_cpu));
}

/// What the choice leaves open is as in the first row of the same algorithm that says it.
Choice completed(Choice choice, const SelectionFacts& facts, const TuningTable& table) {
  for (const auto& rows : {table.rows(), TuningTable::built_in()}) {
    for (const TuningRow& row : rows) {
      if (row.choice.algorithm == choice.algorithm && about(row, facts)) {
        choice.segment = choice.segment != 0 ? choice.segment : row.choice.segment;
        choice.ahead = choice.ahead >= 0 ? choice.ahead : row.choice.ahead;
        choice.ring = choice.ring != 0 ? choice.ring : row.choice.ring;
      }
    }
  }
  return choice;
}

Selection direct(const SelectionFacts& facts, const TuningTable& table, const Choice& asked,
                 Protocol protocol) {
  if (protocol != Protocol::staged) {
    return {.kind = Selection::Kind::direct, .protocol = protocol};
  }
  const Choice choice = completed(asked, facts, table);
  // Settings of several rows may not fit together: then the segment gives way.
  const std::size_t most = choice.ring / (static_cast<std::size_t>(choice.ahead) + 2);
  return {.kind = Selection::Kind::direct,
          .protocol = protocol,
          .segment_bytes = std::min(choice.segment, most),
          .lookahead = choice.ahead,
          .ring_bytes = choice.ring};
}

/// Runs the call as `choice` has it, where that fits.
bool apply(const SelectionFacts& facts, const TuningTable& table, const Choice& choice,
           Selection& selection) {
  if (const Protocol* protocol = find_protocol(choice.algorithm)) {
    if (!protocol_fits(facts, *protocol)) {
      return false;
    }
    selection = direct(facts, table, choice, *protocol);
    return true;
  }
  if (choice.algorithm == kTwoLevelName) {
    if (two_level_fits(facts)) {
      selection = two_level(facts);
    }
    return two_level_fits(facts);
  }
  const Algorithm* algorithm = find_algorithm(facts.op, choice.algorithm);
  if (algorithm == nullptr || !message_fits(facts, *algorithm)) {
    return false;
  }
  selection = {.kind = Selection::Kind::message, .algorithm = algorithm};
  return true;
}

bool choose_by_table(const SelectionFacts& facts, const TuningTable& table, Selection& selection) {
  const std::size_t bytes = contribution(facts);
  for (const auto& rows : {table.rows(), TuningTable::built_in()}) {
    for (const TuningRow& row : rows) {
      if (bytes <= row.up_to && about(row, facts) && apply(facts, table, row.choice, selection)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::size_t contribution(const SelectionFacts& facts) {
  const std::size_t blocks =
      spec(facts.op).block_per_rank() ? static_cast<std::size_t>(facts.ranks) : 1;
  return facts.block_bytes * blocks;
}

Selection select(const SelectionFacts& facts, const TuningTable& table) {
  Selection selection;
  if (!facts.forced.empty() && apply(facts, table, parse_choice(facts.forced), selection)) {
    return selection;
  }
  // Sizes that only pairs of ranks know choose nothing.
  if (!facts.pairwise_counts && choose_by_table(facts, table, selection)) {
    return selection;
  }
  if (two_level_fits(facts)) {
    return two_level(facts);
  }
  return {.kind = Selection::Kind::message,
          .algorithm = find_algorithm(facts.op, message_name(facts, kThresholds))};
}

std::string_view name(const Selection& selection) {
  switch (selection.kind) {
    case Selection::Kind::direct:
      return name(selection.protocol);
    case Selection::Kind::two_level:
      return kTwoLevelName;
    case Selection::Kind::message:
      break;
  }
  return selection.algorithm->name;
}

std::vector<std::string_view> selectable_names() {
  std::vector<std::string_view> names;
  for (const Protocol row : kProtocols) {
    names.push_back(name(row));
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
  for (const Protocol row : kProtocols) {
    if (has_direct_plan(op, row)) {
      names += std::string(name(row)) + ", ";
    }
  }
  if (has_two_level_plan(op)) {
    names += std::string(kTwoLevelName) + ", ";
  }
  return names + algorithm_names(op);
}

bool is_selectable(Op op, std::string_view choice) {
  const std::string_view algorithm = choice.substr(0, choice.find(','));
  const auto known = selectable_names();
  if (std::find(known.begin(), known.end(), algorithm) == known.end()) {
    return false;
  }
  parse_choice(choice);  // its settings
  if (const Protocol* protocol = find_protocol(algorithm)) {
    return has_direct_plan(op, *protocol);
  }
  return algorithm == kTwoLevelName ? has_two_level_plan(op)
                                    : find_algorithm(op, algorithm) != nullptr;
}

}  // namespace tutti
