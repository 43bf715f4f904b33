// Reading Fashion-MNIST: 60000 training and 10000 test images of 28 x 28 grey pixels with a label
// from 0 to 9, in gzipped IDX files. A rank keeps in memory only the samples it will train on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fashion_mnist {

inline constexpr std::size_t kPixels = 28 * 28;
inline constexpr std::size_t kClasses = 10;

/// Images one after the other, kPixels bytes each, and a label for each.
struct Samples {
  std::vector<std::uint8_t> images{};
  std::vector<std::uint8_t> labels{};
  std::size_t size() const { return labels.size(); }
};

/// Number of samples of `set`, "train" or "t10k", as its label file says.
std::size_t count_samples(const std::filesystem::path& folder, const std::string& set);

/// Reads the samples at `positions` of the set, in that order. Throws std::runtime_error, naming
/// the file, if it is missing, cut short, or not what its name promises.
Samples read_samples(const std::filesystem::path& folder, const std::string& set,
                     const std::vector<std::size_t>& positions);

/// The numbers 0 to count-1 in an order that depends on `seed` alone: on every machine and rank the
/// same, which the standard library's shuffle does not promise.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed);

/// How the training set is cut. The shuffled set is dealt out in batches, and each rank owns the
/// same contiguous part of every batch:
///
///     batch 0              batch 1              batch 2
///     | r0 | r1 | r2 | r3 || r0 | r1 | r2 | r3 || r0 | ...
///
/// So batch b holds the same samples on any number of ranks, which makes the loss curves equal.
/// The last samples, too few for a batch, are left out.
struct Split {
  std::size_t batch = 0;  ///< samples of one step over all ranks; divisible by `ranks`
  std::size_t rank = 0;
  std::size_t ranks = 1;
};

/// Positions of this rank's samples, batch after batch.
std::vector<std::size_t> shard_of(std::size_t count, std::uint64_t seed, const Split& split);

}  // namespace fashion_mnist
