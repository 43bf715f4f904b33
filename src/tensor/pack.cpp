// The copy is free to visit indices in any order, so the axes are first put into the best one:
// sorted by target stride, neighbours merged wherever both sides allow it. Most layouts end up as a
// few long memcpy runs. Where the short axis of the source is another one than that of the target
// (a transposed tensor), these two become the innermost and are copied in square tiles.
#include "tensor/pack.hpp"

#include "base/ensure.hpp"
#include "tensor/layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace tutti {
namespace {

constexpr std::int64_t kTile = 32;    // elements on each side
constexpr std::int64_t kFewRows = 8;  // under this a tile does not pay

struct Axis {
  std::int64_t extent;
  std::ptrdiff_t source;  // strides in bytes
  std::ptrdiff_t target;
};

struct StridedCopy {
  std::vector<Axis> axes{};  // the last one is innermost
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

template <std::size_t kBytes>
struct Element {
  std::byte bytes[kBytes];
};

template <std::size_t kBytes>
void copy_row(const Axis& axis, const std::byte* source, std::byte* target) {
  const auto step = static_cast<std::ptrdiff_t>(kBytes);
  if (axis.source == step && axis.target == step) {
    std::memcpy(target, source, static_cast<std::size_t>(axis.extent) * kBytes);
    return;
  }
  if (axis.source == 0) {
    Element<kBytes> value;
    std::memcpy(&value, source, kBytes);
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      std::memcpy(target + i * axis.target, &value, kBytes);
    }
    return;
  }
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    std::memcpy(target + i * axis.target, source + i * axis.source, kBytes);
  }
}

/// One tile of a transposed block, through a compact copy: the source is read along its short axis
/// and the target written along its own. Straight strided access would need one cache line per
/// element, and strides of a power of two put all of these into a few sets of the cache.
template <std::size_t kBytes>
void copy_tile(const Axis& outer, const Axis& inner, const std::byte* source, std::byte* target) {
  std::byte tile[kTile * kTile * kBytes];
  const auto row_bytes = static_cast<std::ptrdiff_t>(kTile * kBytes);
  const auto step = static_cast<std::ptrdiff_t>(kBytes);
  const Axis read{outer.extent, outer.source, row_bytes};
  for (std::int64_t i = 0; i < inner.extent; ++i) {
    copy_row<kBytes>(read, source + i * inner.source, tile + i * step);
  }
  const Axis write{inner.extent, step, inner.target};
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    copy_row<kBytes>(write, tile + i * row_bytes, target + i * outer.target);
  }
}

template <std::size_t kBytes>
void copy_tiles(Axis outer, Axis inner, const std::byte* source, std::byte* target) {
  const std::int64_t rows = outer.extent;
  const std::int64_t columns = inner.extent;
  for (std::int64_t row = 0; row < rows; row += kTile) {
    outer.extent = std::min(kTile, rows - row);
    for (std::int64_t column = 0; column < columns; column += kTile) {
      inner.extent = std::min(kTile, columns - column);
      copy_tile<kBytes>(outer, inner, source + row * outer.source + column * inner.source,
                        target + row * outer.target + column * inner.target);
    }
  }
}

template <std::size_t kBytes>
void copy_block(const Axis& outer, const Axis& inner, const std::byte* source, std::byte* target) {
  const bool transposed = std::abs(outer.source) < std::abs(inner.source);
  if (transposed && outer.extent >= kFewRows && inner.extent >= kFewRows) {
    return copy_tiles<kBytes>(outer, inner, source, target);
  }
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    copy_row<kBytes>(inner, source + i * outer.source, target + i * outer.target);
  }
}

template <std::size_t kBytes>
void copy_axes(std::span<const Axis> axes, const std::byte* source, std::byte* target) {
  if (axes.empty()) {
    std::memcpy(target, source, kBytes);
    return;
  }
  if (axes.size() == 1) {
    copy_row<kBytes>(axes[0], source, target);
    return;
  }
  if (axes.size() == 2) {
    copy_block<kBytes>(axes[0], axes[1], source, target);
    return;
  }
  for (std::int64_t i = 0; i < axes[0].extent; ++i) {
    copy_axes<kBytes>(axes.subspan(1), source + i * axes[0].source, target + i * axes[0].target);
  }
}

void merge_axes(std::vector<Axis>& axes) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const Axis& inner = axes[i];
    Axis& outer = axes[kept];
    if (outer.source == inner.source * inner.extent &&
        outer.target == inner.target * inner.extent) {
      outer = {outer.extent * inner.extent, inner.source, inner.target};
    } else {
      axes[++kept] = inner;
    }
  }
  axes.resize(axes.empty() ? 0 : kept + 1);
}

/// Moves the axis that is shortest in the source next to the one that is shortest in the target.
void pair_short_axes(std::vector<Axis>& axes) {
  if (axes.size() < 3) {
    return;
  }
  const auto last = axes.end() - 1;
  const auto shortest = std::min_element(axes.begin(), last, [](const Axis& a, const Axis& b) {
    return std::abs(a.source) < std::abs(b.source);
  });
  if (std::abs(shortest->source) < std::abs(last->source)) {
    std::rotate(shortest, shortest + 1, last);
  }
}

void arrange(StridedCopy& copy) {
  for (Axis& axis : copy.axes) {
    if (axis.target < 0) {  // walk it the other way round
      copy.source += (axis.extent - 1) * axis.source;
      copy.target += (axis.extent - 1) * axis.target;
      axis.source = -axis.source;
      axis.target = -axis.target;
    }
  }
  std::ranges::stable_sort(copy.axes, std::ranges::greater{}, &Axis::target);
  merge_axes(copy.axes);
  pair_short_axes(copy.axes);
}

void run(StridedCopy copy, std::size_t bytes) {
  arrange(copy);
  switch (bytes) {
    case 1:
      return copy_axes<1>(copy.axes, copy.source, copy.target);
    case 2:
      return copy_axes<2>(copy.axes, copy.source, copy.target);
    case 4:
      return copy_axes<4>(copy.axes, copy.source, copy.target);
    case 8:
      return copy_axes<8>(copy.axes, copy.source, copy.target);
    case 16:
      return copy_axes<16>(copy.axes, copy.source, copy.target);
    default:
      ensure(false, "element size is a power of two up to 16");
  }
}

struct Side {
  const void* data;
  const Shape& strides;
};

void copy_strided(const Tensor& like, Side source, Side target) {
  if (like.elements() == 0) {
    return;
  }
  const auto bytes = static_cast<std::ptrdiff_t>(element_bytes(like.dtype()));
  StridedCopy copy{.source = static_cast<const std::byte*>(source.data),
                   .target = static_cast<std::byte*>(const_cast<void*>(target.data))};
  const Shape& shape = like.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) {
      copy.axes.push_back({shape[d], source.strides[d] * bytes, target.strides[d] * bytes});
    }
  }
  run(std::move(copy), static_cast<std::size_t>(bytes));
}

}  // namespace

void pack(const Tensor& source, void* target) {
  if (source.is_contiguous()) {
    if (source.bytes() != 0) {
      std::memcpy(target, source.data(), source.bytes());
    }
    return;
  }
  copy_strided(source, {source.data(), source.strides()},
               {target, layout::row_major_strides(source.shape())});
}

void unpack(const void* source, const Tensor& target) {
  if (target.is_contiguous()) {
    if (target.bytes() != 0) {
      std::memcpy(target.data(), source, target.bytes());
    }
    return;
  }
  copy_strided(target, {source, layout::row_major_strides(target.shape())},
               {target.data(), target.strides()});
}

void copy_elements(const Tensor& source, const Tensor& target) {
  ensure(source.shape() == target.shape() && source.dtype() == target.dtype(),
         "copies have equal shape and dtype");
  copy_strided(source, {source.data(), source.strides()}, {target.data(), target.strides()});
}

void fill_elements(const void* value, const Tensor& target) {
  const Shape still(target.shape().size(), 0);
  copy_strided(target, {value, still}, {target.data(), target.strides()});
}

}  // namespace tutti
