#include "tensor/scalar.hpp"

#include "base/ensure.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tutti::scalar {
namespace {

constexpr int kDoubleFraction = 52;  // bits

template <class T>
T load(const void* source) {
  T value;
  std::memcpy(&value, source, sizeof(T));
  return value;
}

template <class T>
void store(void* target, T value) {
  std::memcpy(target, &value, sizeof(T));
}

/// Calls `use` with a zero of the C++ type that holds an integer dtype.
template <class Use>
void with_integer(DType dtype, Use use) {
  switch (dtype) {
    case DType::u8:
      return use(std::uint8_t{});
    case DType::u16:
      return use(std::uint16_t{});
    case DType::u32:
      return use(std::uint32_t{});
    case DType::u64:
      return use(std::uint64_t{});
    case DType::i8:
      return use(std::int8_t{});
    case DType::i16:
      return use(std::int16_t{});
    case DType::i32:
      return use(std::int32_t{});
    case DType::i64:
      return use(std::int64_t{});
    default:
      ensure(false, "an integer dtype");
  }
}

NarrowFormat narrow_format(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return kF16;
    case DType::bf16:
      return kBf16;
    case DType::f8e4m3fn:
      return kF8e4m3fn;
    default:
      ensure(dtype == DType::f8e5m2, "a narrow float dtype");
      return kF8e5m2;
  }
}

std::uint16_t load_narrow(DType dtype, const void* source) {
  return element_bytes(dtype) == 1 ? load<std::uint8_t>(source) : load<std::uint16_t>(source);
}

void store_narrow(DType dtype, void* target, double value) {
  const std::uint16_t bits = encode(narrow_format(dtype), value);
  if (element_bytes(dtype) == 1) {
    store(target, static_cast<std::uint8_t>(bits));
  } else {
    store(target, bits);
  }
}

double read_floating(DType dtype, const void* source) {
  if (dtype == DType::f64) {
    return load<double>(source);
  }
  if (dtype == DType::f32) {
    return load<float>(source);
  }
  return decode(narrow_format(dtype), load_narrow(dtype, source));
}

void write_floating(DType dtype, void* target, double value) {
  if (dtype == DType::f64) {
    store(target, value);
  } else if (dtype == DType::f32) {
    store(target, static_cast<float>(value));
  } else {
    store_narrow(dtype, target, value);
  }
}

/// The integer part modulo 2^64.
std::uint64_t wrapped(double value) {
  if (!std::isfinite(value)) {
    return 0;
  }
  const double rest = std::fmod(std::trunc(value), 0x1p64);
  const auto magnitude = static_cast<std::uint64_t>(std::fabs(rest));
  return rest < 0 ? 0 - magnitude : magnitude;
}

template <class T>
std::string float_text(T value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

/// The fewest digits that encode to the same bits.
std::string narrow_text(NarrowFormat format, std::uint16_t bits) {
  const double value = decode(format, bits);
  if (!std::isfinite(value)) {
    return float_text(value);
  }
  for (int digits = 1; digits < std::numeric_limits<float>::max_digits10; ++digits) {
    const double rounded = std::stod(fmt::format("{:.{}e}", value, digits - 1));
    if (encode(format, rounded) == bits) {
      return fmt::format("{}", rounded);
    }
  }
  return fmt::format("{}", value);
}

template <class T>
std::string complex_text(std::complex<T> value) {
  const std::string imaginary = float_text(value.imag());
  return fmt::format("{}{}{}j", float_text(value.real()), imaginary[0] == '-' ? "" : "+",
                     imaginary);
}

std::string floating_text(DType dtype, const void* source) {
  if (dtype == DType::f64) {
    return float_text(load<double>(source));
  }
  if (dtype == DType::f32) {
    return float_text(load<float>(source));
  }
  return narrow_text(narrow_format(dtype), load_narrow(dtype, source));
}

}  // namespace

std::uint16_t encode(NarrowFormat format, double value) {
  const int fraction_bits = format.fraction_bits;
  const std::uint64_t top_exponent = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t infinity = top_exponent << fraction_bits;
  const std::uint64_t all_ones = infinity | ((std::uint64_t{1} << fraction_bits) - 1);
  const std::uint64_t nan =
      format.has_infinity ? infinity | (std::uint64_t{1} << (fraction_bits - 1)) : all_ones;
  const std::uint64_t overflow = format.has_infinity ? infinity : nan;
  const std::uint64_t sign = (std::bit_cast<std::uint64_t>(value) >> 63)
                             << (format.exponent_bits + fraction_bits);
  const auto with_sign = [&](std::uint64_t magnitude) {
    return static_cast<std::uint16_t>(sign | magnitude);
  };
  if (std::isnan(value)) {
    return with_sign(nan);
  }
  if (std::isinf(value)) {
    return with_sign(overflow);
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int double_exponent = static_cast<int>((bits >> kDoubleFraction) & 0x7ff);
  if (double_exponent == 0) {
    return with_sign(0);  // below 2^-1022: far under half of every format's smallest number
  }
  const std::uint64_t significand =
      (bits & ((std::uint64_t{1} << kDoubleFraction) - 1)) | (std::uint64_t{1} << kDoubleFraction);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = double_exponent - 1023 + bias;  // under 1: a subnormal of the format
  const int shift = kDoubleFraction - fraction_bits + (exponent < 1 ? 1 - exponent : 0);
  if (shift > kDoubleFraction + 1) {
    return with_sign(0);
  }
  std::uint64_t rounded = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) {
    ++rounded;
  }
  // The leading bit of a normal significand adds one to the exponent field, as does a carry.
  const auto field = static_cast<std::uint64_t>(exponent < 1 ? 0 : exponent - 1);
  const std::uint64_t magnitude = (field << fraction_bits) + rounded;
  return with_sign(magnitude >= (format.has_infinity ? infinity : all_ones) ? overflow : magnitude);
}

double decode(NarrowFormat format, std::uint16_t bits) {
  const int fraction_bits = format.fraction_bits;
  const int top_exponent = (1 << format.exponent_bits) - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits >> fraction_bits) & top_exponent;
  const double sign = ((bits >> (format.exponent_bits + fraction_bits)) & 1) != 0 ? -1 : 1;
  const bool special = exponent == top_exponent;
  if (special && format.has_infinity && fraction == 0) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (special && (format.has_infinity || fraction == (1 << fraction_bits) - 1)) {
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int significand = exponent == 0 ? fraction : fraction | (1 << fraction_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - bias - fraction_bits;
  return sign * std::ldexp(significand, scale);
}

std::complex<double> read(DType dtype, const void* source) {
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
      return load<std::uint8_t>(source) != 0 ? 1 : 0;
    case DTypeClass::integer: {
      double value = 0;
      with_integer(dtype,
                   [&](auto zero) { value = static_cast<double>(load<decltype(zero)>(source)); });
      return value;
    }
    case DTypeClass::floating:
      return read_floating(dtype, source);
    case DTypeClass::complex:
      return dtype == DType::complex128 ? load<std::complex<double>>(source)
                                        : std::complex<double>(load<std::complex<float>>(source));
  }
  ensure(false, "a dtype of the table");
  return 0;
}

void write(DType dtype, void* target, std::complex<double> value) {
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
      return store(target, static_cast<std::uint8_t>(value != 0.0 ? 1 : 0));
    case DTypeClass::integer:
      return with_integer(dtype, [&](auto zero) {
        store(target, static_cast<decltype(zero)>(wrapped(value.real())));
      });
    case DTypeClass::floating:
      return write_floating(dtype, target, value.real());
    case DTypeClass::complex:
      return dtype == DType::complex128 ? store(target, value)
                                        : store(target, std::complex<float>(value));
  }
}

std::string text(DType dtype, const void* source) {
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
      return load<std::uint8_t>(source) != 0 ? "True" : "False";
    case DTypeClass::integer: {
      std::string result;
      with_integer(dtype,
                   [&](auto zero) { result = fmt::format("{:d}", load<decltype(zero)>(source)); });
      return result;
    }
    case DTypeClass::floating:
      return floating_text(dtype, source);
    case DTypeClass::complex:
      return dtype == DType::complex128 ? complex_text(load<std::complex<double>>(source))
                                        : complex_text(load<std::complex<float>>(source));
  }
  ensure(false, "a dtype of the table");
  return {};
}

}  // namespace tutti::scalar
