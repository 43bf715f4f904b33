// Views: other shapes and strides over the same storage. Extents and strides were bounded when the
// tensor was made, so none of the products here can overflow, except where a comment says why not.
#include "tensor/layout.hpp"

#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tutti {
namespace {

using layout::text;

void require_defined(const Tensor& tensor, const char* what) {
  if (!tensor.defined()) {
    throw InvalidArgument(fmt::format("{} of an undefined tensor", what));
  }
}

/// Fills in the one extent that may be -1.
Shape complete(Shape shape, const Tensor& tensor) {
  const auto open = std::ranges::find(shape, -1);
  if (open == shape.end()) {
    return shape;
  }
  if (std::count(shape.begin(), shape.end(), -1) > 1) {
    throw InvalidArgument(
        fmt::format("shape {} leaves more than one extent open; one may be -1", text(shape)));
  }
  *open = 1;
  const auto known = static_cast<std::int64_t>(layout::count_elements(shape, tensor.dtype()));
  const auto elements = static_cast<std::int64_t>(tensor.elements());
  *open = -1;
  if (known == 0 || elements % known != 0) {
    throw InvalidArgument(fmt::format("no extent in place of -1 makes shape {} hold {} elements",
                                      text(shape), elements));
  }
  *open = elements / known;
  return shape;
}

/// `shape` without -1, holding as many elements as `tensor`.
Shape equal_count_shape(Shape shape, const Tensor& tensor, const char* what) {
  require_defined(tensor, what);
  shape = complete(std::move(shape), tensor);
  const std::size_t elements = layout::count_elements(shape, tensor.dtype());
  if (elements != tensor.elements()) {
    throw InvalidArgument(fmt::format("{} {} holds {} elements, the tensor of shape {} holds {}",
                                      what, text(shape), elements, text(tensor.shape()),
                                      tensor.elements()));
  }
  return shape;
}

/// Where a slice begins and how many elements it has, by Python's rules.
struct SliceRange {
  std::int64_t start;
  std::int64_t count;
};

SliceRange slice_range(std::int64_t extent, std::int64_t start, std::int64_t stop,
                       std::int64_t step) {
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? extent : extent - 1;
  const auto clamped = [&](std::int64_t bound) {
    return std::clamp(bound < 0 ? bound + extent : bound, lowest, highest);
  };
  start = clamped(start);
  stop = clamped(stop);
  const std::uint64_t distance = static_cast<std::uint64_t>(step > 0 ? stop - start : start - stop);
  if (step > 0 ? stop <= start : start <= stop) {
    return {start, 0};
  }
  // Negating as unsigned: the most negative step has no positive counterpart.
  const auto stride = static_cast<std::uint64_t>(step);
  const std::uint64_t length = step > 0 ? stride : 0 - stride;
  return {start, static_cast<std::int64_t>((distance - 1) / length + 1)};
}

}  // namespace

std::int64_t Tensor::size(std::int64_t d) const {
  return shape_[layout::dimension(d, shape_.size())];
}

bool Tensor::overlaps_itself() const {
  return !contiguous_ && layout::overlaps_itself(shape_, strides_);
}

bool Tensor::shares_memory(const Tensor& other) const {
  if (elements_ == 0 || other.elements_ == 0) {
    return false;
  }
  struct Bytes {
    std::uintptr_t first;
    std::uintptr_t end;
  };
  const auto spanned = [](const Tensor& tensor) {
    const auto [lowest, highest] = layout::reach(tensor.shape_, tensor.strides_);
    const auto bytes = static_cast<std::int64_t>(element_bytes(tensor.dtype_));
    const auto base = reinterpret_cast<std::uintptr_t>(tensor.data_);
    return Bytes{base + static_cast<std::uintptr_t>(lowest * bytes),
                 base + static_cast<std::uintptr_t>((highest + 1) * bytes)};
  };
  const Bytes mine = spanned(*this);
  const Bytes theirs = spanned(other);
  return mine.first < theirs.end && theirs.first < mine.end;
}

Tensor Tensor::with_layout(Shape shape, Shape strides, std::byte* data) const {
  return from_blob(data, std::move(shape), dtype_, std::move(strides), storage_);
}

Tensor Tensor::view(Shape shape) const {
  shape = equal_count_shape(std::move(shape), *this, "view");
  auto strides = layout::view_strides(shape_, strides_, shape);
  if (!strides) {
    throw InvalidArgument(fmt::format(
        "no view of shape {} over a tensor of shape {} with strides {}; use reshape, which copies",
        text(shape), text(shape_), text(strides_)));
  }
  return with_layout(std::move(shape), std::move(*strides), data_as<std::byte>());
}

Tensor Tensor::reshape(Shape shape) const {
  shape = equal_count_shape(std::move(shape), *this, "reshape");
  auto strides = layout::view_strides(shape_, strides_, shape);
  if (!strides) {
    return clone().view(std::move(shape));
  }
  return with_layout(std::move(shape), std::move(*strides), data_as<std::byte>());
}

Tensor Tensor::slice(std::int64_t d, std::int64_t start, std::int64_t stop,
                     std::int64_t step) const {
  require_defined(*this, "slice");
  const std::size_t axis = layout::dimension(d, shape_.size());
  if (step == 0) {
    throw InvalidArgument(
        fmt::format("slice of dimension {} with step 0; it must be positive or negative", d));
  }
  const SliceRange range = slice_range(shape_[axis], start, stop, step);
  Shape shape = shape_;
  Shape strides = strides_;
  shape[axis] = range.count;
  // With two elements or more the step stays within the extent; with fewer its stride is unused.
  if (range.count > 1) {
    strides[axis] *= step;
  }
  auto* data = data_as<std::byte>();
  if (elements_ != 0 && range.count != 0) {
    data += range.start * strides_[axis] * static_cast<std::int64_t>(element_bytes(dtype_));
  }
  return with_layout(std::move(shape), std::move(strides), data);
}

Tensor Tensor::select(std::int64_t d, std::int64_t index) const {
  require_defined(*this, "select");
  const std::size_t axis = layout::dimension(d, shape_.size());
  const std::int64_t extent = shape_[axis];
  if (index < -extent || index >= extent) {
    throw InvalidArgument(fmt::format("index {} of dimension {} with extent {}, shape {}", index, d,
                                      extent, text(shape_)));
  }
  // At extent 1 the stride may be any number: it must not be multiplied, not even by 0 elements.
  const std::int64_t position = index < 0 ? index + extent : index;
  auto* data = data_as<std::byte>();
  if (elements_ != 0 && position != 0) {
    data += position * strides_[axis] * static_cast<std::int64_t>(element_bytes(dtype_));
  }
  Shape shape = shape_;
  Shape strides = strides_;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return with_layout(std::move(shape), std::move(strides), data);
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  require_defined(*this, "transpose");
  const std::size_t first = layout::dimension(a, shape_.size());
  const std::size_t second = layout::dimension(b, shape_.size());
  Shape shape = shape_;
  Shape strides = strides_;
  std::swap(shape[first], shape[second]);
  std::swap(strides[first], strides[second]);
  return with_layout(std::move(shape), std::move(strides), data_as<std::byte>());
}

Tensor Tensor::expand(Shape shape) const {
  require_defined(*this, "expand");
  if (shape.size() < shape_.size()) {
    throw InvalidArgument(fmt::format("expand of shape {} to {}, which has fewer dimensions",
                                      text(shape_), text(shape)));
  }
  const Shape asked = shape;
  const std::size_t added = shape.size() - shape_.size();
  Shape strides(shape.size(), 0);
  for (std::size_t d = added; d < shape.size(); ++d) {
    const std::int64_t extent = shape_[d - added];
    if (shape[d] == -1 || shape[d] == extent) {
      shape[d] = extent;
      strides[d] = strides_[d - added];
    } else if (extent != 1) {
      throw InvalidArgument(
          fmt::format("expand of shape {} to {}: extent {} cannot become {}; only 1 can grow",
                      text(shape_), text(asked), extent, shape[d]));
    }
  }
  return with_layout(std::move(shape), std::move(strides), data_as<std::byte>());
}

}  // namespace tutti
