// Shape arithmetic without memory: counts, strides, spans, views, self-overlap. Everything that
// comes from a user is bounded here once (limits::kMaxDims, kMaxTensorBytes), so that the rest of
// the module can multiply extents and strides without looking. Strides count elements.
#pragma once

#include <tutti/dtype.hpp>
#include <tutti/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tutti::layout {

/// "[2, 3]".
std::string text(const Shape& shape);

/// Number of elements. Throws InvalidArgument for a negative extent, too many dimensions, or more
/// bytes than limits::kMaxTensorBytes (extents of 0 are left out of that product).
std::size_t count_elements(const Shape& shape, DType dtype);

/// Strides of the compact row-major layout.
Shape row_major_strides(const Shape& shape);

/// Whether the layout is row major without gaps; strides of extents of 1 do not matter.
bool is_row_major(const Shape& shape, const Shape& strides);

/// Throws InvalidArgument unless there is one stride per extent and the memory between the first
/// and the last byte that an index reaches is within limits::kMaxTensorBytes.
void check_strides(const Shape& shape, const Shape& strides, DType dtype);

/// Lowest and highest offset that an index reaches, in elements from the first one.
struct Reach {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
Reach reach(const Shape& shape, const Shape& strides);

/// Strides that show the elements of (shape, strides) as `target`, or nothing if only a copy can.
/// Both shapes have equal element counts.
std::optional<Shape> view_strides(const Shape& shape, const Shape& strides, const Shape& target);

/// Whether two indices meet at one offset. Exact, except that after a bounded search through
/// unusual stride combinations the answer is true.
bool overlaps_itself(const Shape& shape, const Shape& strides);

/// Dimension `d` of `dims`, negative ones counted from the end. Throws InvalidArgument.
std::size_t dimension(std::int64_t d, std::size_t dims);

}  // namespace tutti::layout
