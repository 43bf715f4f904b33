// For tests: what a reduction must give, one element at a time, straight from the definitions. It
// shares nothing with the kernels: codes of narrow floats are decoded and rounded by arithmetic on
// doubles, not on bits.
#pragma once

#include "base/ensure.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti::reference {

using Bytes = std::vector<unsigned char>;

struct Case {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::span<const Bytes> sources{};
  int divisor = 1;
  std::span<const std::complex<double>> factors{};
};

template <typename T>
T element(const Bytes& bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void set_element(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

// ---- narrow floats ----

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int least_exponent() const { return 1 - bias(); }
  [[nodiscard]] int sign_code() const { return 1 << (exponent_bits + mantissa_bits); }
  /// First magnitude code that is not finite.
  [[nodiscard]] int overflow_code() const {
    return infinities ? ((1 << exponent_bits) - 1) << mantissa_bits : sign_code() - 1;
  }
  [[nodiscard]] int nan_code() const {
    return infinities ? overflow_code() + (1 << (mantissa_bits - 1)) : overflow_code();
  }
};

inline Format format(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {5, 10, true};
    case DType::bf16:
      return {8, 7, true};
    case DType::f8e4m3fn:
      return {4, 3, false};
    default:
      ensure(dtype == DType::f8e5m2, "a narrow type");
      return {5, 2, true};
  }
}

inline float decode(Format f, int code) {
  const double sign = (code & f.sign_code()) != 0 ? -1.0 : 1.0;
  const int magnitude = code & (f.sign_code() - 1);
  if (magnitude >= f.overflow_code()) {
    const bool infinite = f.infinities && magnitude == f.overflow_code();
    return infinite ? static_cast<float>(sign * HUGE_VAL) : std::nanf("");
  }
  const int exponent = magnitude >> f.mantissa_bits;
  const int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  const double scaled = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  const int power = std::max(exponent, 1) - f.bias() - f.mantissa_bits;
  return static_cast<float>(sign * std::ldexp(scaled, power));
}

/// To nearest, ties to even.
inline int encode(Format f, float value) {
  if (std::isnan(value)) {
    return f.nan_code();
  }
  const int sign = std::signbit(value) ? f.sign_code() : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(value)) {
    return sign + f.overflow_code();
  }
  const int exponent =
      magnitude == 0 ? f.least_exponent() : std::max(std::ilogb(magnitude), f.least_exponent());
  const double last_places = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // 2^mantissa_bits last places make the next exponent: codes are consecutive across that border.
  const double code = last_places + static_cast<double>(exponent - f.least_exponent()) *
                                        static_cast<double>(1 << f.mantissa_bits);
  return sign + static_cast<int>(std::min(code, static_cast<double>(f.overflow_code())));
}

// ---- one element ----

template <typename T>
T with_one_nan(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <typename T>
T float_min(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <typename T>
T combine_floats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::min:
      return float_min(a, b);
    case ReduceOp::max:
      return -float_min(-a, -b);
    default:
      return a + b;
  }
}

template <typename T, typename Load>
T reduce_floats(const Case& test, Load load) {
  const auto term = [&](std::size_t k) {
    const T value = load(k);
    return test.op == ReduceOp::premul_sum ? value * static_cast<T>(test.factors[k].real()) : value;
  };
  T result = term(0);
  for (std::size_t k = 1; k < test.sources.size(); ++k) {
    result = combine_floats(test.op, result, term(k));
  }
  if (test.op == ReduceOp::avg) {
    result = result / static_cast<T>(test.divisor);
  }
  return with_one_nan(result);
}

/// The textbook product, written out: std::complex rescues some infinities.
template <typename T>
std::complex<T> times(std::complex<T> x, std::complex<T> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

template <typename T>
std::complex<T> reduce_complex(const Case& test, std::size_t index) {
  const auto term = [&](std::size_t k) {
    const auto value = element<std::complex<T>>(test.sources[k], index);
    if (test.op != ReduceOp::premul_sum) {
      return value;
    }
    const std::complex<T> factor{static_cast<T>(test.factors[k].real()),
                                 static_cast<T>(test.factors[k].imag())};
    return factor.imag() == 0
               ? std::complex<T>{value.real() * factor.real(), value.imag() * factor.real()}
               : times(value, factor);
  };
  std::complex<T> result = term(0);
  for (std::size_t k = 1; k < test.sources.size(); ++k) {
    const std::complex<T> next = term(k);
    result = test.op == ReduceOp::prod
                 ? times(result, next)
                 : std::complex<T>{result.real() + next.real(), result.imag() + next.imag()};
  }
  if (test.op == ReduceOp::avg) {
    const T divisor = static_cast<T>(test.divisor);
    result = {result.real() / divisor, result.imag() / divisor};
  }
  return {with_one_nan(result.real()), with_one_nan(result.imag())};
}

template <typename T>
T combine_integers(ReduceOp op, T a, T b) {
  const auto wide_a = static_cast<std::uint64_t>(a);
  const auto wide_b = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::prod:
      return static_cast<T>(wide_a * wide_b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<T>(wide_a & wide_b);
    case ReduceOp::bor:
      return static_cast<T>(wide_a | wide_b);
    case ReduceOp::bxor:
      return static_cast<T>(wide_a ^ wide_b);
    default:
      return static_cast<T>(wide_a + wide_b);
  }
}

template <typename T>
T reduce_integers(const Case& test, std::size_t index) {
  T result = element<T>(test.sources[0], index);
  for (std::size_t k = 1; k < test.sources.size(); ++k) {
    result = combine_integers(test.op, result, element<T>(test.sources[k], index));
  }
  if (test.op == ReduceOp::avg) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    result = static_cast<T>(static_cast<Wide>(result) / static_cast<Wide>(test.divisor));
  }
  return result;
}

inline std::uint8_t reduce_bools(const Case& test, std::size_t index) {
  std::size_t trues = 0;
  for (const Bytes& source : test.sources) {
    trues += source[index] != 0 ? 1U : 0U;
  }
  switch (test.op) {
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::band:
      return trues == test.sources.size() ? 1 : 0;
    case ReduceOp::bxor:
      return trues % 2 == 1 ? 1 : 0;
    default:
      return trues > 0 ? 1 : 0;
  }
}

template <typename Code>
Code reduce_narrow(const Case& test, std::size_t index) {
  const Format f = format(test.dtype);
  const float result = reduce_floats<float>(
      test, [&](std::size_t k) { return decode(f, element<Code>(test.sources[k], index)); });
  return static_cast<Code>(encode(f, result));
}

template <typename T>
T reduce_plain(const Case& test, std::size_t index) {
  return reduce_floats<T>(test, [&](std::size_t k) { return element<T>(test.sources[k], index); });
}

// ---- whole arrays ----

template <typename T, typename Reduce>
Bytes fill(const Case& test, Reduce reduce) {
  Bytes out(test.sources[0].size());
  for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
    set_element<T>(out, i, reduce(test, i));
  }
  return out;
}

inline Bytes reduce(const Case& test) {
  switch (test.dtype) {
    case DType::boolean:
      return fill<std::uint8_t>(test, reduce_bools);
    case DType::u8:
      return fill<std::uint8_t>(test, reduce_integers<std::uint8_t>);
    case DType::u16:
      return fill<std::uint16_t>(test, reduce_integers<std::uint16_t>);
    case DType::u32:
      return fill<std::uint32_t>(test, reduce_integers<std::uint32_t>);
    case DType::u64:
      return fill<std::uint64_t>(test, reduce_integers<std::uint64_t>);
    case DType::i8:
      return fill<std::int8_t>(test, reduce_integers<std::int8_t>);
    case DType::i16:
      return fill<std::int16_t>(test, reduce_integers<std::int16_t>);
    case DType::i32:
      return fill<std::int32_t>(test, reduce_integers<std::int32_t>);
    case DType::i64:
      return fill<std::int64_t>(test, reduce_integers<std::int64_t>);
    case DType::f16:
    case DType::bf16:
      return fill<std::uint16_t>(test, reduce_narrow<std::uint16_t>);
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return fill<std::uint8_t>(test, reduce_narrow<std::uint8_t>);
    case DType::f32:
      return fill<float>(test, reduce_plain<float>);
    case DType::f64:
      return fill<double>(test, reduce_plain<double>);
    case DType::complex64:
      return fill<std::complex<float>>(test, reduce_complex<float>);
    case DType::complex128:
      return fill<std::complex<double>>(test, reduce_complex<double>);
  }
  return {};
}

/// Which combinations exist (semantics: "Reduce operations and dtypes").
inline bool defined(DType dtype, ReduceOp op) {
  const DTypeClass kind = info(dtype).kind;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
      return true;
    case ReduceOp::min:
    case ReduceOp::max:
      return kind != DTypeClass::complex;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return kind == DTypeClass::boolean || kind == DTypeClass::integer;
    case ReduceOp::avg:
      return kind != DTypeClass::boolean;
    case ReduceOp::premul_sum:
      return kind == DTypeClass::floating || kind == DTypeClass::complex;
  }
  return false;
}

}  // namespace tutti::reference
