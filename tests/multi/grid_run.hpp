// Runs one case on one rank: makes the tensors, calls, and checks everything a caller may rely on.
#pragma once

#include "multi/grid_case.hpp"

#include <tutti/group.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace tutti::grid {

/// The groups of a context that cases need: one per forced algorithm, deterministic or not. All
/// ranks make them in the same order, before the first case.
class Groups {
 public:
  Groups(Context& context, std::span<const Case> cases);
  Group& of(const Case& test);

 private:
  static std::string key(const Case& test);
  std::map<std::string, Group> groups_{};
};

/// What a rank has to say about a case. A wrong result is a std::runtime_error that names it.
struct Verdict {
  /// Of the outputs, where all ranks must have equal bits; else 0.
  std::uint64_t hash = 0;
};
Verdict run_case(const Case& test, Group& group);

}  // namespace tutti::grid
