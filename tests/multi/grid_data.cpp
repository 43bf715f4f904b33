#include "multi/grid_data.hpp"

#include "base/ensure.hpp"
#include "base/rng.hpp"
#include "kernels/reference.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tutti::grid {
namespace {

constexpr std::size_t kPalette = 251;

/// Largest whole number such that sums of eight, in any order, have no rounding.
double largest_whole(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return 1;
    case DType::bf16:
      return 31;
    case DType::f16:
      return 100;
    case DType::f32:
    case DType::complex64:
      return 1e5;
    default:
      return 1e12;
  }
}

double whole(Rng& rng, double largest) {
  const auto range = static_cast<std::uint64_t>(2 * largest + 1);
  return static_cast<double>(rng.below(range)) - largest;
}

double power_of_two(Rng& rng) {
  const double magnitude = std::ldexp(1.0, static_cast<int>(rng.below(3)) - 1);
  return rng.below(2) == 0 ? magnitude : -magnitude;
}

/// A float whose reductions are exact.
double plain_float(Rng& rng, DType dtype, ReduceOp op) {
  const double largest = largest_whole(dtype);
  switch (op) {
    case ReduceOp::prod:
      return power_of_two(rng);
    case ReduceOp::premul_sum:  // room for the factors, and even
      return 2 * whole(rng, std::max(1.0, std::floor(largest / 8)));
    case ReduceOp::min:
    case ReduceOp::max:
      return whole(rng, largest) / 2;
    default:
      return whole(rng, largest);
  }
}

double special_float(Rng& rng) {
  switch (rng.below(32)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return -std::numeric_limits<double>::infinity();
    default:
      return static_cast<double>(rng.below(4));
  }
}

double ordered_float(Rng& rng, ReduceOp op) {
  if (op == ReduceOp::prod) {
    return 0.6 + rng.uniform();
  }
  return std::ldexp(2 * rng.uniform() - 1, static_cast<int>(rng.below(7)) - 3);
}

std::complex<double> drawn(Rng& rng, const Case& test) {
  const auto real = [&] {
    switch (test.values()) {
      case Values::special:
        return special_float(rng);
      case Values::ordered:
        return ordered_float(rng, test.reduce());
      case Values::plain:
        break;
    }
    return plain_float(rng, test.dtype(), test.reduce());
  };
  if (info(test.dtype()).kind != DTypeClass::complex) {
    return real();
  }
  if (test.values() == Values::plain && test.reduce() == ReduceOp::prod) {
    constexpr std::array<std::complex<double>, 2> kUnits{{{1, 0}, {0, 1}}};
    return kUnits[rng.below(2)] * power_of_two(rng);
  }
  const double first = real();
  return {first, real()};
}

/// Whole numbers whose average does not wrap.
double small_integer(Rng& rng, DType dtype) {
  const bool narrow = element_bytes(dtype) == 1;
  const bool has_sign =
      dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
  const double largest = narrow ? 15 : 1000;
  return whole(rng, largest) + (has_sign ? 0 : largest);
}

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdU;
  x ^= x >> 29;
  return x;
}

bool same_value(const Tensor& a, const Tensor& b, std::size_t i, Compare compare) {
  const std::size_t bytes = element_bytes(a.dtype());
  if (std::memcmp(a.data_as<std::byte>() + i * bytes, b.data_as<std::byte>() + i * bytes, bytes) ==
      0) {
    return true;
  }
  const std::complex<double> x = a.element(i);
  const std::complex<double> y = b.element(i);
  const auto same = [&](double p, double q) {
    return (std::isnan(p) && std::isnan(q)) ||
           (p == q && (compare == Compare::values || std::signbit(p) == std::signbit(q)));
  };
  return info(a.dtype()).kind != DTypeClass::integer && same(x.real(), y.real()) &&
         same(x.imag(), y.imag());
}

}  // namespace

Source::Source(const Case& test) : dtype_(test.dtype()), hash_(test.hash()) {
  const std::size_t bytes = element_bytes(dtype_);
  const DTypeClass kind = info(dtype_).kind;
  Rng rng(hash_);
  const Tensor elements = Tensor::empty({static_cast<std::int64_t>(kPalette)}, dtype_);
  for (std::size_t i = 0; i < kPalette; ++i) {
    if (kind == DTypeClass::boolean) {
      elements.set_element(i, static_cast<double>(rng.below(2)));
    } else if (kind == DTypeClass::integer && test.reduces() && test.reduce() == ReduceOp::avg) {
      elements.set_element(i, small_integer(rng, dtype_));
    } else if (kind == DTypeClass::integer || !test.reduces()) {
      const std::array<std::uint64_t, 2> bits{rng.next(), rng.next()};
      std::memcpy(elements.data_as<std::byte>() + i * bytes, bits.data(), bytes);
    } else {
      elements.set_element(i, drawn(rng, test));
    }
  }
  palette_.assign(elements.data_as<std::byte>(), elements.data_as<std::byte>() + elements.bytes());
}

Tensor Source::block(BlockId id, std::size_t elements) const {
  const std::size_t bytes = element_bytes(dtype_);
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(elements)}, dtype_);
  const std::uint64_t start =
      mix(hash_ + static_cast<std::uint64_t>(id.rank * 64 + id.block + 1) * 0x9e3779b97f4a7c15U);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t drawn_index = mix(start + i * 0x9e3779b97f4a7c15U) % kPalette;
    std::memcpy(tensor.data_as<std::byte>() + i * bytes, palette_.data() + drawn_index * bytes,
                bytes);
  }
  return tensor;
}

std::complex<double> factor_of(const Case& test, int rank) {
  const auto index = static_cast<std::size_t>(rank) % 4;
  if (element_bytes(test.dtype()) == 1) {
    return rank % 2 == 0 ? 0.5 : -0.5;
  }
  if (test.values() == Values::ordered) {
    return 0.3 * (rank + 1);
  }
  constexpr std::array kReal{0.5, -1.0, 2.0, 3.0};
  constexpr std::array kImaginary{1.0, 0.0, -0.5, 0.0};
  return info(test.dtype()).kind == DTypeClass::complex
             ? std::complex<double>{kReal[index], kImaginary[index]}
             : std::complex<double>{kReal[index]};
}

Tensor reduced(const Case& test, const Source& source, int block, std::size_t elements) {
  std::vector<reference::Bytes> blocks;
  std::vector<std::complex<double>> factors;
  for (int rank = 0; rank < test.world(); ++rank) {
    const Tensor made = source.block({.rank = rank, .block = block}, elements);
    const auto* data = made.data_as<unsigned char>();
    blocks.emplace_back(data, data + made.bytes());
    factors.push_back(factor_of(test, rank));
  }
  const reference::Bytes result =
      reference::reduce({.dtype = test.dtype(),
                         .op = test.reduce(),
                         .sources = blocks,
                         .divisor = test.reduce() == ReduceOp::avg ? test.world() : 1,
                         .factors = factors});
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(elements)}, test.dtype());
  std::copy(result.begin(), result.end(), tensor.data_as<unsigned char>());
  return tensor;
}

Tensor joined(DType dtype, const std::vector<Tensor>& parts) {
  std::size_t elements = 0;
  for (const Tensor& part : parts) {
    elements += part.elements();
  }
  Tensor whole_tensor = Tensor::empty({static_cast<std::int64_t>(elements)}, dtype);
  auto* to = whole_tensor.data_as<std::byte>();
  for (const Tensor& part : parts) {
    to = std::copy_n(part.data_as<std::byte>(), part.bytes(), to);
  }
  return whole_tensor;
}

std::string difference(const Tensor& actual, const Tensor& expected, Compare compare) {
  const Tensor flat = actual.contiguous();
  if (flat.elements() != expected.elements() || flat.dtype() != expected.dtype()) {
    return fmt::format("{} elements of {}, expected {} of {}", flat.elements(), name(flat.dtype()),
                       expected.elements(), name(expected.dtype()));
  }
  if (std::memcmp(flat.data(), expected.data(), flat.bytes()) == 0) {
    return {};
  }
  std::string text;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < flat.elements(); ++i) {
    if (!same_value(flat, expected, i, compare)) {
      if (wrong++ == 0) {
        const std::complex<double> got = flat.element(i);
        const std::complex<double> want = expected.element(i);
        text = fmt::format("element {} is {}{:+}i, expected {}{:+}i", i, got.real(), got.imag(),
                           want.real(), want.imag());
      }
    }
  }
  return wrong == 0 ? "" : fmt::format("{} ({} of {} are wrong)", text, wrong, flat.elements());
}

Extent extent_of(Layout layout, std::size_t elements) {
  if (layout == Layout::transposed) {
    for (std::size_t divisor = 2; divisor <= 7 && divisor < elements; ++divisor) {
      if (elements % divisor == 0) {
        return {.rows = elements / divisor, .columns = divisor};
      }
    }
  }
  return {.rows = elements};
}

Buffer::Buffer(DType dtype, Extent extent, Layout layout, std::uint64_t salt) {
  const auto rows = static_cast<std::int64_t>(extent.rows);
  const auto columns = static_cast<std::int64_t>(extent.columns);
  const std::int64_t guard = 16 + static_cast<std::int64_t>(salt % 3);
  const std::int64_t stretch = layout == Layout::step                                ? 2
                               : layout == Layout::transposed && extent.columns == 1 ? 3
                                                                                     : 1;
  const std::int64_t inside = rows * columns * stretch;
  memory_ = Tensor::empty({guard + inside + 16}, dtype);
  Rng rng(salt);
  for (std::size_t i = 0; i < memory_.bytes(); ++i) {
    memory_.data_as<unsigned char>()[i] =
        dtype == DType::boolean ? 1 : static_cast<unsigned char>(rng.next());
  }
  const Tensor middle = memory_.slice(0, guard, guard + inside);
  if (layout == Layout::step) {
    view_ = middle.slice(0, 0, inside, 2);
  } else if (layout == Layout::transposed && stretch == 1) {
    view_ = middle.view({columns, rows}).transpose(0, 1);
  } else if (layout == Layout::transposed) {
    view_ = middle.view({rows, stretch}).slice(1, 1, 2);
  } else {
    view_ = middle;
  }
}

void Buffer::fill(const Tensor& elements) {
  view_.copy_from(elements.view(view_.shape()));
  original_ = view_.clone();
  const auto* data = memory_.data_as<std::byte>();
  snapshot_.assign(data, data + memory_.bytes());
}

std::string Buffer::touched() const {
  const auto* data = memory_.data_as<std::byte>();
  for (std::size_t i = 0; i < snapshot_.size(); ++i) {
    if (data[i] != snapshot_[i]) {
      return fmt::format("byte {} of the {} around it has changed", i, snapshot_.size());
    }
  }
  return {};
}

std::string Buffer::touched_outside() {
  view_.copy_from(original_);
  return touched();
}

}  // namespace tutti::grid
