// Data-parallel training with tutti. Start it with
//
//     tutti run -n 4 ./fashion_mnist
//
// Every rank runs this program. Each holds the whole network and a part of every batch; one
// all_reduce per step averages the gradients, after which all take the same step. Read `train`
// below first; network.hpp is the network, data.hpp says which samples a rank gets.
#include "data.hpp"
#include "network.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <tutti/tutti.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion_mnist {
namespace {

/// Which part of the work is this process's? The launcher told tutti.
Split split_of(const Options& options) {
  const Split split{options.batch, static_cast<std::size_t>(tutti::get_rank()),
                    static_cast<std::size_t>(tutti::get_world_size())};
  if (split.batch % split.ranks != 0) {
    throw std::runtime_error("a batch of " + std::to_string(split.batch) +
                             " samples cannot be shared evenly by " + std::to_string(split.ranks) +
                             " ranks; give a multiple with --batch");
  }
  return split;
}

/// Ranks must never drift apart, not by one bit: compares a hash of everybody's parameters.
void check_equal_everywhere(const tutti::Tensor& parameters) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto* bytes = parameters.data_as<unsigned char>();
  for (std::size_t i = 0; i < parameters.bytes(); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  const auto mine = tutti::Tensor::of({hash});
  const auto all = tutti::Tensor::empty({tutti::get_world_size()}, tutti::DType::u64);
  tutti::all_gather_into_tensor(all, mine);
  for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
    if (all.at<std::uint64_t>({rank}) != hash) {
      throw std::runtime_error("the parameters of rank " + std::to_string(rank) +
                               " differ from those of rank " + std::to_string(tutti::get_rank()));
    }
  }
}

/// Share of the test set that the network gets right; each rank looks at its part of it.
template <class T>
double test_accuracy(Network<T>& network, const Options& options, const Split& split) {
  const std::size_t total = count_samples(options.data, "t10k");
  const std::size_t first = total * split.rank / split.ranks;
  std::vector<std::size_t> positions(total * (split.rank + 1) / split.ranks - first);
  std::iota(positions.begin(), positions.end(), first);
  const Samples samples = read_samples(options.data, "t10k", positions);

  const std::size_t share = split.batch / split.ranks;
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < samples.size(); i += share) {
    const std::size_t count = std::min(share, samples.size() - i);
    correct += static_cast<std::int64_t>(network.count_correct(samples, i, count));
  }
  const auto sum = tutti::Tensor::of({correct});
  tutti::all_reduce(sum);
  return sum.item() / static_cast<double>(total);
}

template <class T>
double train(const Options& options) {
  const Split split = split_of(options);
  const Samples samples = read_samples(
      options.data, "train", shard_of(count_samples(options.data, "train"), options.seed, split));
  const std::size_t share = split.batch / split.ranks;
  const std::size_t batches = samples.size() / share;
  if (batches == 0) {
    throw std::runtime_error("the training set is smaller than one batch of " +
                             std::to_string(split.batch) + " samples; give less with --batch");
  }
  const std::size_t steps = options.steps > 0 ? options.steps : options.epochs * batches;

  // Rank 0 draws the weights, everybody else receives them.
  Network<T> network(options.hidden, share);
  if (split.rank == 0) {
    network.initialise(options.seed);
  }
  tutti::broadcast(network.parameters(), 0);

  Progress progress(
      {.steps = steps, .epoch = batches, .is_silent = split.rank != 0, .losses = options.losses});
  std::vector<std::size_t> order;
  for (std::size_t step = 0; step < steps; ++step) {
    if (step % batches ==
        0) {  // each epoch takes the batches in another order, the same everywhere
      order = shuffled(batches, options.seed + step / batches);
    }
    network.learn(samples, order[step % batches] * share, share);
    // Gradients and loss of this rank's samples become those of the whole batch.
    tutti::all_reduce(network.bucket(), {.op = tutti::ReduceOp::avg});
    const double left = 1 - static_cast<double>(step) / static_cast<double>(steps);
    network.update(options.rate * left, options.momentum);
    progress.report(step, network.loss());
  }
  check_equal_everywhere(network.parameters());
  return test_accuracy(network, options, split);
}

void run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  tutti::init_process_group();
  const double accuracy =
      options.precision == Precision::f32 ? train<float>(options) : train<double>(options);
  if (tutti::get_rank() == 0) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::printf("accuracy=%.4f ranks=%d seconds=%.1f\n", accuracy, tutti::get_world_size(),
                passed.count());
  }
  tutti::destroy_process_group();
}

}  // namespace
}  // namespace fashion_mnist

int main(int argc, char** argv) {
  const fashion_mnist::Options options = fashion_mnist::parse_options(argc, argv);
  try {
    fashion_mnist::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 1;
  }
  return 0;
}
