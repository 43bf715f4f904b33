// The command line of the example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace fashion_mnist {

enum class Precision : std::uint8_t { f32, f64 };

struct Options {
  Precision precision = Precision::f32;
  std::uint64_t seed = 1;
  std::size_t epochs = 8;
  std::size_t batch = 240;  ///< samples of one step over all ranks
  std::size_t hidden = 128;
  std::size_t steps = 0;  ///< stop after so many; 0: all epochs
  double rate = 0.1;      ///< learning rate at the start; falls to 0 along a line
  double momentum = 0.9;
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::filesystem::path losses{};  ///< the loss of every step is written there
};

/// Reads the arguments. Prints the help or what is wrong and ends the process if that is all there
/// is to do.
Options parse_options(int argc, char** argv);

}  // namespace fashion_mnist
