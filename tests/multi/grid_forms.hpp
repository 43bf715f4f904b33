// The forms of the grid: one row per public call, with all that the tests have to know of it. What
// it does is the meaning of its operation.
#pragma once

#include "plan/spec.hpp"

#include <tutti/collectives.hpp>
#include <tutti/group.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::grid {

/// Elements of a block: the same for all; other ones for the block of each rank; other ones, or
/// none, for each pair of ranks.
enum class Counts : std::uint8_t { even, uneven, pairwise };

/// What one rank passes; each form takes what it needs.
struct Arguments {
  Group& group;
  std::span<const Tensor> inputs{};
  std::span<const Tensor> outputs{};
  Tensor input{};   ///< the first one; undefined if there is none
  Tensor output{};  ///< likewise
  int root = 0;
  ReduceOptions reduce{};
  SplitOptions splits{};
  MessageOptions message{};
  bool any_source = false;  ///< receive from whoever sends
};

struct Form {
  std::string_view name{};
  Op op{};
  bool single = false;  ///< one tensor holds the blocks of all ranks
  Counts counts = Counts::even;
  void (*blocking)(const Arguments& with) = nullptr;
  void (*async)(const Arguments& with) = nullptr;  ///< waits as well
};

/// Several rows may be forms of one operation.
extern const std::span<const Form> kForms;

}  // namespace tutti::grid
