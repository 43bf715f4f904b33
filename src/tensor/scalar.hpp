// One element of any dtype, read as complex<double> and written from it. Used for printing, element
// access and filling, never on the data path. Rounding is to nearest, ties to even, once: narrow
// floats are made straight from double. Overflow gives infinity, except in float8_e4m3fn, which has
// none: there it gives NaN, as ml_dtypes and PyTorch have it (no saturation).
#pragma once

#include <tutti/dtype.hpp>

#include <complex>
#include <cstdint>
#include <string>

namespace tutti::scalar {

/// `source` may be unaligned. 64-bit integers above 2^53 are rounded.
std::complex<double> read(DType dtype, const void* source);

/// Integers truncate towards zero, then wrap; NaN and infinity become 0. bool is `value != 0`; real
/// types take the real part. `target` may be unaligned.
void write(DType dtype, void* target, std::complex<double> value);

/// Shortest text that reads back as the same element: "1", "0.1", "-inf", "True", "1-2j". 64-bit
/// integers are exact.
std::string text(DType dtype, const void* source);

/// A binary float of at most 16 bits: sign, exponent, fraction.
struct NarrowFormat {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;  ///< else the highest pattern alone is NaN, and all others are finite
};
inline constexpr NarrowFormat kF16{5, 10, true};
inline constexpr NarrowFormat kBf16{8, 7, true};
inline constexpr NarrowFormat kF8e4m3fn{4, 3, false};
inline constexpr NarrowFormat kF8e5m2{5, 2, true};

std::uint16_t encode(NarrowFormat format, double value);
double decode(NarrowFormat format, std::uint16_t bits);

}  // namespace tutti::scalar
