// A seeded pairwise cover of the grid: cases such that every pair of factor values that is legal at
// all is met at least once, and every (form, algorithm, world size) that is legal. Greedy: each
// next case is the best of some random ones that meet the first goal still open.
#pragma once

#include "base/rng.hpp"
#include "multi/grid_case.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::grid {

struct Cover {
  std::vector<Case> cases{};
  std::size_t pairs = 0;          ///< legal pairs of factor values
  std::size_t triples = 0;        ///< legal (form, algorithm, world size)
  std::size_t covered_pairs = 0;  ///< counted again from `cases`
  std::size_t covered_triples = 0;
};

Cover make_cover(std::uint64_t seed);
/// Counts what `cover.cases` meet, afresh.
void count_covered(Cover& cover);

/// A legal case drawn at random from the whole product.
Case random_case(Rng& rng, std::uint64_t seed);

}  // namespace tutti::grid
