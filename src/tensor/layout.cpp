#include "tensor/layout.hpp"

#include "base/limits.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

namespace tutti::layout {
namespace {

/// A run of dimensions that one stride describes.
struct Chunk {
  std::int64_t extent;
  std::int64_t stride;
};

std::vector<Chunk> merge_dimensions(const Shape& shape, const Shape& strides) {
  std::vector<Chunk> chunks;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) {
      continue;
    }
    const bool mergeable = !chunks.empty() && chunks.back().stride == strides[d] * shape[d];
    if (mergeable) {
      chunks.back() = {chunks.back().extent * shape[d], strides[d]};
    } else {
      chunks.push_back({shape[d], strides[d]});
    }
  }
  return chunks;
}

}  // namespace

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::size_t count_elements(const Shape& shape, DType dtype) {
  if (shape.size() > limits::kMaxDims) {
    throw InvalidArgument(fmt::format("shape has {} dimensions, at most {} are possible",
                                      shape.size(), limits::kMaxDims));
  }
  const std::size_t bytes = element_bytes(dtype);
  std::size_t nonzero = 1;
  bool has_zero = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgument(
          fmt::format("shape {} has the negative extent {}", text(shape), extent));
    }
    has_zero = has_zero || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(nonzero, static_cast<std::size_t>(extent), &nonzero)) {
      nonzero = limits::kMaxTensorBytes + 1;  // stays above the limit: extents are at least 1 here
    }
    if (nonzero > limits::kMaxTensorBytes / bytes) {
      throw InvalidArgument(
          fmt::format("shape {} of {} ({} bytes each) needs more than {} bytes, the largest tensor",
                      text(shape), name(dtype), bytes, limits::kMaxTensorBytes));
    }
  }
  return has_zero ? 0 : nonzero;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d] > 0 ? shape[d] : 1;
  }
  return strides;
}

bool is_row_major(const Shape& shape, const Shape& strides) {
  std::int64_t expected = 1;
  bool holds = true;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) {
      return true;
    }
    if (shape[d] != 1) {
      holds = holds && strides[d] == expected;
      expected *= shape[d];
    }
  }
  return holds;
}

void check_strides(const Shape& shape, const Shape& strides, DType dtype) {
  if (strides.size() != shape.size()) {
    throw InvalidArgument(
        fmt::format("{} strides {} for the {} dimensions of shape {}; pass one "
                    "per dimension, or none for row major",
                    strides.size(), text(strides), shape.size(), text(shape)));
  }
  const auto bound = static_cast<std::int64_t>(limits::kMaxTensorBytes / element_bytes(dtype));
  std::int64_t span = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 1) {
      continue;
    }
    const std::int64_t steps = shape[d] - 1;
    if (strides[d] > bound / steps || strides[d] < -(bound / steps)) {
      span = bound;
    } else {
      span += std::abs(strides[d]) * steps;
    }
    if (span >= bound) {
      throw InvalidArgument(
          fmt::format("strides {} of shape {} of {} span more than {} bytes, the largest tensor",
                      text(strides), text(shape), name(dtype), limits::kMaxTensorBytes));
    }
  }
}

Reach reach(const Shape& shape, const Shape& strides) {
  Reach result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 1) {
      continue;
    }
    const std::int64_t last = (shape[d] - 1) * strides[d];
    (last < 0 ? result.lowest : result.highest) += last;
  }
  return result;
}

std::optional<Shape> view_strides(const Shape& shape, const Shape& strides, const Shape& target) {
  if (is_row_major(shape, strides)) {
    return row_major_strides(target);
  }
  Shape result(target.size(), 1);
  const std::vector<Chunk> chunks = merge_dimensions(shape, strides);
  std::size_t d = target.size();  // dimensions of `target` from here on are done
  for (std::size_t c = chunks.size(); c-- > 0;) {
    std::int64_t left = chunks[c].extent;
    std::int64_t stride = chunks[c].stride;
    while (left > 1) {
      const std::int64_t extent = target[--d];  // counts are equal, so a dimension is left
      if (left % extent != 0) {
        return std::nullopt;
      }
      result[d] = stride;
      stride *= extent;
      left /= extent;
    }
  }
  return result;
}

std::size_t dimension(std::int64_t d, std::size_t dims) {
  const auto count = static_cast<std::int64_t>(dims);
  if (d < -count || d >= count) {
    throw InvalidArgument(
        dims == 0
            ? fmt::format("dimension {} of a tensor that has no dimensions", d)
            : fmt::format("dimension {} of a tensor with {} dimensions; {} to {} are possible", d,
                          dims, -count, count - 1));
  }
  return static_cast<std::size_t>(d < 0 ? d + count : d);
}

}  // namespace tutti::layout
