// For tests: random strided layouts with known properties, from a seed.
#pragma once

#include "base/rng.hpp"

#include <tutti/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// Extents and strides in elements; `first` is where the first index lies in a buffer of `span`
/// elements that holds every index.
struct Layout {
  Shape shape{};
  Shape strides{};
  std::int64_t first = 0;
  std::int64_t span = 0;
};

inline std::int64_t below(Rng& rng, std::int64_t bound) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bound)));
}

inline Shape random_shape(Rng& rng) {
  const std::int64_t dims = below(rng, 6);
  Shape shape;
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < dims; ++d) {
    std::int64_t extent = below(rng, 10) == 0 ? 20 + below(rng, 60) : below(rng, 6);
    if (extent == 0 && below(rng, 4) != 0) {
      extent = 1;  // few shapes without elements
    }
    if (elements * extent > 20000) {
      extent = 1;
    }
    elements *= extent == 0 ? 1 : extent;
    shape.push_back(extent);
  }
  return shape;
}

/// No two indices meet: dimensions in random order, each beyond the reach of those before it,
/// often with a gap, sometimes backwards.
inline Layout random_layout(Rng& rng, Shape shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (below(rng, 3) == 0) {
    order = {order.rbegin(), order.rend()};  // row major comes from descending order
  } else {
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(rng.below(i))]);
    }
  }
  Layout layout{.shape = std::move(shape)};
  layout.strides.resize(layout.shape.size());
  std::int64_t stride = 1 + (below(rng, 3) == 0 ? below(rng, 3) : 0);
  layout.span = 1;
  for (const std::size_t d : order) {
    const std::int64_t extent = layout.shape[d];
    const std::int64_t sign = below(rng, 4) == 0 ? -1 : 1;
    layout.strides[d] = sign * stride;
    if (extent > 1) {
      layout.first += sign < 0 ? (extent - 1) * stride : 0;
      layout.span += (extent - 1) * stride;
      stride = stride * extent + (below(rng, 3) == 0 ? below(rng, 4) : 0);
    }
  }
  return layout;
}

/// As random_layout, with some dimensions expanded (stride 0).
inline Layout random_source(Rng& rng, Shape shape) {
  Shape stored = shape;
  for (std::int64_t& extent : stored) {
    extent = below(rng, 6) == 0 ? 1 : extent;
  }
  Layout layout = random_layout(rng, stored);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    layout.strides[d] = stored[d] == shape[d] ? layout.strides[d] : 0;
  }
  layout.shape = std::move(shape);
  return layout;
}

/// Offset of element number `i`, in row-major order, within the buffer.
inline std::int64_t offset(const Layout& layout, std::int64_t i) {
  std::int64_t result = layout.first;
  for (std::size_t d = layout.shape.size(); d-- > 0;) {
    result += i % layout.shape[d] * layout.strides[d];
    i /= layout.shape[d];
  }
  return result;
}

inline std::vector<std::byte> random_bytes(Rng& rng, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) {
    byte = static_cast<std::byte>(rng.next());
  }
  return result;
}

}  // namespace tutti::testing
