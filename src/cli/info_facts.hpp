// What `tutti info` tells: gathered here as lines of text, printed by info.cpp.
#pragma once

#include "plan/tuning.hpp"
#include "rendezvous/environment.hpp"

#include <string>
#include <vector>

namespace tutti::cli {

/// A heading and what stands beside it, a line or several.
struct Fact {
  std::string name{};
  std::vector<std::string> lines{};
};

/// Version, compiler, kernels, backends, element types, reduce operations, CPUs, memory, limits.
std::vector<Fact> library_facts();

/// Which algorithm runs which operation at which size: one Fact per situation, one line per
/// operation, such as "all_reduce  inlined, from 8K staged".
std::vector<Fact> selection_facts(const TuningTable& table);

/// The table in force: where it comes from, and its rows in the order in which they are tried.
Fact tuning_facts(const TuningTable& table);

/// The variables of docs/environment.md that are set, with their values; secrets are not shown.
Fact environment_facts(const EnvLookup& lookup);

}  // namespace tutti::cli
