// Selection: which algorithm runs a call. A pure function of facts that are equal on all ranks, so
// that every rank chooses alike; a local fact (placement, registered memory) has no place here.
#pragma once

#include "plan/algorithms.hpp"
#include "plan/direct_plan.hpp"
#include "plan/tuning.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct SelectionFacts {
  Op op = Op::barrier;
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  std::size_t block_bytes = 0;  ///< of the largest block
  int ranks = 1;
  bool one_host = true;    ///< all ranks share memory
  bool two_level = false;  ///< several hosts, one of them with several ranks
  int ranks_per_cpu = 1;   ///< of the host, rounded up; only asked if one_host
  bool deterministic = false;
  bool pairwise_counts = false;  ///< only each pair of ranks knows its count
  bool uneven = false;
  std::string_view forced{};  ///< text of a Choice, or empty
};

struct Selection {
  enum class Kind : std::uint8_t { direct, message, two_level } kind = Kind::direct;
  Protocol protocol = Protocol::inlined;  ///< direct
  const Algorithm* algorithm = nullptr;   ///< message
  std::size_t segment_bytes = 0;          ///< direct, staged
  int lookahead = 0;                      ///< direct, staged
  std::size_t ring_bytes = 0;             ///< direct, staged
  bool large = false;                     ///< two_level: bandwidth matters more than latency
};

/// Where one message algorithm gives way to the next, in bytes, unless a tuning table says
/// otherwise. The table of docs/algorithms.md, "Selection".
struct Thresholds {
  std::size_t doubling = 64 << 10;  ///< all_reduce, reduce, broadcast: latency counts below
};

/// Bytes a rank contributes, by which the tuning table goes: one block, or one per rank.
std::size_t contribution(const SelectionFacts& facts);

/// Never fails: a forced name that does not fit this call gives way to the ordinary choice.
Selection select(const SelectionFacts& facts, const TuningTable& table);

/// As a caller may force it.
std::string_view name(const Selection& selection);

/// Names a caller may force: "direct_inlined", ..., "two_level", the message algorithms.
std::vector<std::string_view> selectable_names();
/// Those that `op` has, for messages: "direct_inlined, direct_staged, ring".
std::string selectable_names(Op op);
/// `choice`: the text of a Choice. InvalidArgument if its settings are wrong.
bool is_selectable(Op op, std::string_view choice);

}  // namespace tutti
