// Data of the grid's cases: what every rank puts in, computed by anyone from (case, rank, block,
// index), so that each rank can work out what it must receive; and buffers that notice when
// anything but the tensor itself was written.
#pragma once

#include "multi/grid_case.hpp"

#include <tutti/tensor.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::grid {

/// Who made a block, and for whom (0 where a rank has but one).
struct BlockId {
  int rank = 0;
  int block = 0;
};

/// Elements that suit the case's dtype, reduce operation and values; blocks are drawn from them.
class Source {
 public:
  explicit Source(const Case& test);
  /// `elements` elements, contiguous, in one dimension.
  Tensor block(BlockId id, std::size_t elements) const;

 private:
  DType dtype_;
  std::uint64_t hash_;
  std::vector<std::byte> palette_{};
};

/// premul_sum: what a rank multiplies by.
std::complex<double> factor_of(const Case& test, int rank);

/// What reducing the blocks of all ranks must give; the n blocks are made by `source`.
Tensor reduced(const Case& test, const Source& source, int block, std::size_t elements);

/// Joins contiguous tensors of one dtype into one dimension.
Tensor joined(DType dtype, const std::vector<Tensor>& parts);

/// Empty if `actual` holds the expected elements (in row-major order), else which is wrong. NaNs
/// are equal to each other, zeros too; with `bits` every bit but a NaN's counts.
enum class Compare { values, bits };
std::string difference(const Tensor& actual, const Tensor& expected, Compare compare);

/// Extents of a tensor: `rows` of dimension 0 and `columns`, 1 for a tensor of one dimension.
struct Extent {
  std::size_t rows = 0;
  std::size_t columns = 1;
  std::size_t elements() const { return rows * columns; }
};
/// A transposed tensor of `elements` gets a second dimension where the count has a divisor.
Extent extent_of(Layout layout, std::size_t elements);

/// A tensor inside a larger piece of memory.
class Buffer {
 public:
  /// `salt` varies the distance from the alignment.
  Buffer(DType dtype, Extent extent, Layout layout, std::uint64_t salt);
  const Tensor& tensor() const { return view_; }
  /// Writes the elements (contiguous, one dimension) and remembers the whole memory.
  void fill(const Tensor& elements);
  /// Empty if the memory is as after `fill`, the tensor's own elements excepted or not.
  std::string touched_outside();
  std::string touched() const;

 private:
  Tensor memory_;
  Tensor view_;
  Tensor original_{};
  std::vector<std::byte> snapshot_{};
};

}  // namespace tutti::grid
