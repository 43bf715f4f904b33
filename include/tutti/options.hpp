// Reduce operations and the option structs of the public calls.
#pragma once

#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti {

/// How the contributions of the ranks are combined, element by element.
/// Which element types each allows: docs/algorithms.md, "Reduce operations".
enum class ReduceOp : std::uint8_t { sum, prod, min, max, band, bor, bxor, avg, premul_sum };

inline constexpr std::array<std::string_view, 9> kReduceOpNames{
    "sum", "prod", "min", "max", "band", "bor", "bxor", "avg", "premul_sum"};
inline constexpr std::size_t kReduceOpCount = kReduceOpNames.size();
/// As messages, command lines and Python spell it.
constexpr std::string_view name(ReduceOp op) {
  return kReduceOpNames[static_cast<std::size_t>(op)];
}

/// Options of every call.
struct CallOptions {
  /// Longest time the call may take on this rank; absent: the group's timeout.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// Options of the reducing calls.
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  /// premul_sum only: this rank's contribution is multiplied by it first. May differ per rank.
  /// A one-element tensor works as well: `.factor = tensor.item_as_complex()`.
  std::complex<double> factor{1.0, 0.0};
  std::optional<std::chrono::milliseconds> timeout{};
};

/// Rows of dimension 0 that go to (input) and come from (output) each rank; empty: equal shares.
struct SplitOptions {
  std::vector<std::int64_t> output_splits{};
  std::vector<std::int64_t> input_splits{};
  std::optional<std::chrono::milliseconds> timeout{};
};

/// Options of point-to-point calls.
struct MessageOptions {
  /// Only messages of equal tag match; 0 to 2^31-1.
  int tag = 0;
  std::optional<std::chrono::milliseconds> timeout{};
};

/// As the peer of a receive: take the next message of any rank.
inline constexpr int kAnySource = -1;

}  // namespace tutti
