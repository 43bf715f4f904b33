#include "tensor/scalar.hpp"

#include "base/rng.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tutti {
namespace {

using scalar::decode;
using scalar::encode;
using scalar::NarrowFormat;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Named {
  const char* name;
  NarrowFormat format;
  double largest;
  double smallest;
};
constexpr std::array kFormats{
    Named{"f16", scalar::kF16, 65504.0, 0x1p-24},
    Named{"bf16", scalar::kBf16, 0x1.fep127, 0x1p-133},
    Named{"f8e4m3fn", scalar::kF8e4m3fn, 448.0, 0x1p-9},
    Named{"f8e5m2", scalar::kF8e5m2, 57344.0, 0x1p-16},
};

std::uint16_t sign_bit(NarrowFormat format) {
  return static_cast<std::uint16_t>(1U << (format.exponent_bits + format.fraction_bits));
}

/// Patterns of the numbers from 0 up to the largest one, which are in numeric order.
std::uint16_t count_finite(const Named& row) {
  return static_cast<std::uint16_t>(encode(row.format, row.largest) + 1);
}

TEST(NarrowFloat, EveryPatternSurvivesDecodeAndEncode) {
  for (const Named& row : kFormats) {
    for (unsigned i = 0; i < 2U * sign_bit(row.format); ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double value = decode(row.format, bits);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decode(row.format, encode(row.format, value)))) << row.name << bits;
      } else {
        EXPECT_EQ(encode(row.format, value), bits) << row.name;
      }
    }
  }
}

TEST(NarrowFloat, LimitsAreThoseOfTheFormat) {
  for (const Named& row : kFormats) {
    EXPECT_EQ(decode(row.format, static_cast<std::uint16_t>(count_finite(row) - 1)), row.largest);
    EXPECT_EQ(decode(row.format, 1), row.smallest) << row.name;
  }
}

TEST(NarrowFloat, RoundsToNearestTiesToEven) {
  for (const Named& row : kFormats) {
    for (std::uint16_t low = 0; low + 1 < count_finite(row); ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double middle = (decode(row.format, low) + decode(row.format, high)) / 2;  // exact
      const std::uint16_t even = low % 2 == 0 ? low : high;
      const std::uint16_t sign = sign_bit(row.format);
      ASSERT_EQ(encode(row.format, middle), even) << row.name << " above pattern " << low;
      ASSERT_EQ(encode(row.format, std::nextafter(middle, kInfinity)), high) << row.name << low;
      ASSERT_EQ(encode(row.format, std::nextafter(middle, 0)), low) << row.name << low;
      ASSERT_EQ(encode(row.format, -middle), even | sign) << row.name << low;
    }
  }
}

TEST(NarrowFloat, OverflowGivesInfinityOrNaNWhereThereIsNone) {
  EXPECT_EQ(decode(scalar::kF16, encode(scalar::kF16, 65519.9)), 65504);
  EXPECT_EQ(decode(scalar::kF16, encode(scalar::kF16, 65520)), kInfinity);
  EXPECT_EQ(decode(scalar::kF16, encode(scalar::kF16, -1e300)), -kInfinity);
  EXPECT_EQ(decode(scalar::kBf16, encode(scalar::kBf16, 1e39)), kInfinity);
  EXPECT_EQ(decode(scalar::kF8e5m2, encode(scalar::kF8e5m2, 61440)), kInfinity);
  EXPECT_EQ(decode(scalar::kF8e4m3fn, encode(scalar::kF8e4m3fn, 464)), 448);
  EXPECT_EQ(encode(scalar::kF8e4m3fn, 464.001), 0x7f);
  EXPECT_EQ(encode(scalar::kF8e4m3fn, -kInfinity), 0xff);
  EXPECT_TRUE(std::isnan(decode(scalar::kF8e4m3fn, 0x7f)));
}

TEST(NarrowFloat, KnownPatterns) {
  EXPECT_EQ(encode(scalar::kF16, 1.0 / 3), 0x3555);
  EXPECT_EQ(encode(scalar::kF16, -2), 0xc000);
  EXPECT_EQ(encode(scalar::kBf16, 1), 0x3f80);
  EXPECT_EQ(encode(scalar::kBf16, 3.14159265), 0x4049);
  EXPECT_EQ(encode(scalar::kF8e4m3fn, 1), 0x38);
  EXPECT_EQ(encode(scalar::kF8e5m2, 1), 0x3c);
  EXPECT_EQ(encode(scalar::kF16, -0.0), 0x8000);
  EXPECT_EQ(encode(scalar::kF16, std::numeric_limits<double>::denorm_min()), 0);
}

TEST(NarrowFloat, RoundsOnceAndNotThroughFloat) {
  // Just above the middle between 1 and the next float16: as a float it is that middle.
  const double value = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(encode(scalar::kF16, value), 0x3c01);
  EXPECT_EQ(encode(scalar::kF16, static_cast<float>(value)), 0x3c00);
}

TEST(Scalar, SmallIntegersSurviveEveryDtypeAtAnyAddress) {
  for (const DTypeInfo& row : kDTypes) {
    std::array<std::byte, 24> memory{};
    for (std::size_t shift = 0; shift < 8; ++shift) {
      scalar::write(row.dtype, memory.data() + shift, 1);
      EXPECT_EQ(scalar::read(row.dtype, memory.data() + shift), 1.0) << row.name;
      EXPECT_EQ(memory[shift + row.bytes], std::byte{0}) << row.name;
    }
  }
}

template <class T>
T written(DType dtype, std::complex<double> value) {
  T result{};
  scalar::write(dtype, &result, value);
  return result;
}

TEST(Scalar, IntegersTruncateAndWrap) {
  EXPECT_EQ(written<std::int32_t>(DType::i32, 3.9), 3);
  EXPECT_EQ(written<std::int32_t>(DType::i32, -3.9), -3);
  EXPECT_EQ(written<std::uint8_t>(DType::u8, 300), 44);
  EXPECT_EQ(written<std::uint8_t>(DType::u8, -1), 255);
  EXPECT_EQ(written<std::int8_t>(DType::i8, 128), -128);
  EXPECT_EQ(written<std::uint64_t>(DType::u64, 0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(written<std::uint64_t>(DType::u64, -1), UINT64_MAX);
  EXPECT_EQ(written<std::int64_t>(DType::i64, -0x1p63), INT64_MIN);
  EXPECT_EQ(written<std::int64_t>(DType::i64, 0x1p100), 0);
  EXPECT_EQ(written<std::int64_t>(DType::i64, kNaN), 0);
  EXPECT_EQ(written<std::int64_t>(DType::i64, kInfinity), 0);
}

TEST(Scalar, BoolIsNotZero) {
  EXPECT_EQ(written<std::uint8_t>(DType::boolean, 0), 0);
  EXPECT_EQ(written<std::uint8_t>(DType::boolean, 0.25), 1);
  EXPECT_EQ(written<std::uint8_t>(DType::boolean, {0, -1}), 1);
  EXPECT_EQ(written<std::uint8_t>(DType::boolean, kNaN), 1);
}

TEST(Scalar, RealTypesTakeTheRealPart) {
  EXPECT_EQ(written<float>(DType::f32, {1.5, 2}), 1.5F);
  EXPECT_EQ(written<std::complex<float>>(DType::complex64, {1.5, 2}), std::complex<float>(1.5, 2));
}

template <class T>
std::string text_of(DType dtype, T value) {
  return scalar::text(dtype, &value);
}

TEST(ScalarText, IsExactForSixtyFourBitIntegers) {
  EXPECT_EQ(text_of(DType::i64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(text_of(DType::u64, UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(text_of(DType::i64, (std::int64_t{1} << 53) + 1), "9007199254740993");
}

TEST(ScalarText, IsTheShortestThatReadsBack) {
  EXPECT_EQ(text_of(DType::f32, 0.1F), "0.1");
  EXPECT_EQ(text_of(DType::f64, 0.1), "0.1");
  EXPECT_EQ(text_of(DType::f32, 16777216.0F), "16777216");
  EXPECT_EQ(text_of(DType::f16, encode(scalar::kF16, 0.1)), "0.1");
  EXPECT_EQ(text_of(DType::f16, encode(scalar::kF16, 65504)), "65500");
  EXPECT_EQ(text_of(DType::bf16, encode(scalar::kBf16, 3.14)), "3.14");
  EXPECT_EQ(text_of(DType::f8e4m3fn, std::uint8_t{0x7e}), "450");
}

TEST(ScalarText, ReadsBackForEveryNarrowPattern) {
  for (const Named& row : kFormats) {
    const DType dtype = row.format.fraction_bits == 10  ? DType::f16
                        : row.format.fraction_bits == 7 ? DType::bf16
                        : row.format.fraction_bits == 3 ? DType::f8e4m3fn
                                                        : DType::f8e5m2;
    for (std::uint16_t bits = 0; bits < count_finite(row); ++bits) {
      ASSERT_EQ(encode(row.format, std::stod(scalar::text(dtype, &bits))), bits) << row.name;
    }
  }
}

TEST(ScalarText, NamesSpecialValuesWithoutTheSignOfNaN) {
  EXPECT_EQ(text_of(DType::f32, -std::numeric_limits<float>::infinity()), "-inf");
  EXPECT_EQ(text_of(DType::f64, std::copysign(kNaN, -1)), "nan");
  EXPECT_EQ(text_of(DType::f8e5m2, std::uint8_t{0x7c}), "inf");
  EXPECT_EQ(text_of(DType::f64, -0.0), "-0");
}

TEST(ScalarText, WritesComplexAsPythonDoes) {
  EXPECT_EQ(text_of(DType::complex64, std::complex<float>(1, -2.5)), "1-2.5j");
  EXPECT_EQ(text_of(DType::complex128, std::complex<double>(0, kNaN)), "0+nanj");
}

TEST(ScalarText, WritesBoolAsPythonDoes) {
  EXPECT_EQ(text_of(DType::boolean, true), "True");
  EXPECT_EQ(text_of(DType::boolean, false), "False");
}

}  // namespace
}  // namespace tutti
