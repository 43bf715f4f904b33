// Reductions of values that went wrong in the field or are easy to get wrong, with the results
// written out: rounding, overflow, NaN, zeros, wrap-around; and accumulators.
#include "base/rng.hpp"
#include "kernels/every_target.hpp"
#include "kernels/reduce.hpp"
#include "kernels/reference.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Reduces arrays of numbers of any real floating type, written as doubles.
class Numbers {
 public:
  Numbers(DType dtype, ReduceOp op) : dtype_(dtype), op_(op) {}
  Numbers& source(const std::vector<double>& values, double factor = 1) {
    sources_.push_back(encode(values));
    factors_.emplace_back(factor, 0.0);
    elements_ = values.size();
    return *this;
  }
  Numbers& divided_by(int divisor) {
    divisor_ = divisor;
    return *this;
  }
  [[nodiscard]] std::vector<double> result() const {
    std::vector<const void*> sources;
    for (const auto& source : sources_) {
      sources.push_back(source.data());
    }
    reference::Bytes out(sources_[0].size());
    reduce_kernel(dtype_, op_)({.sources = sources.data(),
                                .count = static_cast<int>(sources.size()),
                                .out = out.data(),
                                .elements = elements_,
                                .divisor = divisor_,
                                .factors = factors_.data()});
    return decode(out);
  }

 private:
  [[nodiscard]] reference::Bytes encode(const std::vector<double>& values) const {
    reference::Bytes bytes(values.size() * element_bytes(dtype_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype_ == DType::f64) {
        reference::set_element(bytes, i, values[i]);
        continue;
      }
      const auto value = static_cast<float>(values[i]);
      if (dtype_ == DType::f32) {
        reference::set_element(bytes, i, value);
      } else if (element_bytes(dtype_) == 2) {
        const int code = reference::encode(reference::format(dtype_), value);
        reference::set_element(bytes, i, static_cast<std::uint16_t>(code));
      } else {
        const int code = reference::encode(reference::format(dtype_), value);
        reference::set_element(bytes, i, static_cast<std::uint8_t>(code));
      }
    }
    return bytes;
  }
  [[nodiscard]] std::vector<double> decode(const reference::Bytes& bytes) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < elements_; ++i) {
      if (dtype_ == DType::f64) {
        values.push_back(reference::element<double>(bytes, i));
      } else if (dtype_ == DType::f32) {
        values.push_back(static_cast<double>(reference::element<float>(bytes, i)));
      } else {
        const int code = element_bytes(dtype_) == 2 ? reference::element<std::uint16_t>(bytes, i)
                                                    : reference::element<std::uint8_t>(bytes, i);
        values.push_back(static_cast<double>(reference::decode(reference::format(dtype_), code)));
      }
    }
    return values;
  }

  DType dtype_;
  ReduceOp op_;
  std::vector<reference::Bytes> sources_{};
  std::vector<std::complex<double>> factors_{};
  std::size_t elements_ = 0;
  int divisor_ = 1;
};

using Values = std::vector<double>;

template <typename T>
T reduced(DType dtype, ReduceOp op, const std::vector<T>& values, int divisor = 1) {
  std::vector<const void*> sources;
  for (const T& value : values) {
    sources.push_back(&value);
  }
  T out{};
  reduce_kernel(dtype, op)({.sources = sources.data(),
                            .count = static_cast<int>(values.size()),
                            .out = &out,
                            .elements = 1,
                            .divisor = divisor});
  return out;
}

TEST(ReduceValues, SixteenBitFloatsAreFullMembers_FC_B1) {
  on_every_target([] {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const auto result = [dtype](ReduceOp op) {
        return Numbers(dtype, op)
            .source({1.5, -2.25, 96, 0.0078125})
            .source({2.25, 2.25, 32, 0.0078125})
            .result();
      };
      EXPECT_EQ(result(ReduceOp::sum), (Values{3.75, 0, 128, 0.015625}));
      EXPECT_EQ(result(ReduceOp::prod), (Values{3.375, -5.0625, 3072, 0.00006103515625}));
      EXPECT_EQ(result(ReduceOp::max), (Values{2.25, 2.25, 96, 0.0078125}));
      EXPECT_EQ(result(ReduceOp::min), (Values{1.5, -2.25, 32, 0.0078125}));
    }
  });
}

TEST(ReduceValues, Float16RoundsToNearestEven_FC_B2) {
  const Values a{2050, 2048, 1, 1.0009765625, 65504, -65504, 0x1p-24, 65504};
  const Values b{1, 1, 0x1p-11, 0x1p-11, 65504, -65504, 0x1p-24, 16};
  const Values sum{2052, 2048, 1, 1.001953125, kInf, -kInf, 0x1p-23, kInf};
  on_every_target(
      [&] { EXPECT_EQ(Numbers(DType::f16, ReduceOp::sum).source(a).source(b).result(), sum); });
}

TEST(ReduceValues, BoolsStayZeroOrOne_FC_B3) {
  using Bools = std::array<std::uint8_t, 4>;
  const Bools a{1, 0, 0, 1};
  const Bools b{0, 0, 1, 1};
  on_every_target([&] {
    const auto result = [&](ReduceOp op) {
      const std::array<const void*, 2> sources{a.data(), b.data()};
      Bools out{9, 9, 9, 9};
      reduce_kernel(DType::boolean,
                    op)({.sources = sources.data(), .count = 2, .out = out.data(), .elements = 4});
      return out;
    };
    EXPECT_EQ(result(ReduceOp::sum), (Bools{1, 0, 1, 1}));
    EXPECT_EQ(result(ReduceOp::max), (Bools{1, 0, 1, 1}));
    EXPECT_EQ(result(ReduceOp::prod), (Bools{0, 0, 0, 1}));
    EXPECT_EQ(result(ReduceOp::min), (Bools{0, 0, 0, 1}));
    EXPECT_EQ(result(ReduceOp::bxor), (Bools{1, 0, 1, 0}));
  });
}

TEST(ReduceValues, PremulFactorIsTheNumber_FC_B4) {
  on_every_target([] {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const auto result = [dtype](double factor) {
        return Numbers(dtype, ReduceOp::premul_sum)
            .source(Values(8, 1.0), factor)
            .source(Values(8, 2.0), factor)
            .result();
      };
      EXPECT_EQ(result(0.5), Values(8, 1.5));
      EXPECT_EQ(result(3), Values(8, 9.0));
    }
  });
}

TEST(ReduceValues, IntegersWrapAndStayExact_FC_B6) {
  on_every_target([] {
    EXPECT_EQ((reduced<std::int8_t>(DType::i8, ReduceOp::sum, {120, 100})), -36);
    EXPECT_EQ((reduced<std::int16_t>(DType::i16, ReduceOp::sum, {30000, 10000})), -25536);
    EXPECT_EQ((reduced<std::int32_t>(DType::i32, ReduceOp::sum, {2147483647, 1})), INT32_MIN);
    EXPECT_EQ((reduced<std::uint8_t>(DType::u8, ReduceOp::sum, {200, 100})), 44);
    EXPECT_EQ((reduced<std::int64_t>(DType::i64, ReduceOp::sum, {9007199254740993, 1})),
              9007199254740994);
    EXPECT_EQ((reduced<std::int64_t>(DType::i64, ReduceOp::sum, {INT64_MAX, 1})), INT64_MIN);
    EXPECT_EQ((reduced<std::int8_t>(DType::i8, ReduceOp::prod, {16, 16})), 0);
  });
}

TEST(ReduceValues, IntegerAvgTruncatesTowardsZero) {
  on_every_target([] {
    EXPECT_EQ((reduced<std::int32_t>(DType::i32, ReduceOp::avg, {-3, -4}, 2)), -3);
    EXPECT_EQ((reduced<std::int32_t>(DType::i32, ReduceOp::avg, {3, 4}, 2)), 3);
    EXPECT_EQ((reduced<std::int8_t>(DType::i8, ReduceOp::avg, {100, 100}, 2)), -28);
    EXPECT_EQ((reduced<std::uint8_t>(DType::u8, ReduceOp::avg, {7, 8}, 300)), 0);
    EXPECT_EQ((reduced<std::uint64_t>(DType::u64, ReduceOp::avg, {UINT64_MAX}, 2)), UINT64_MAX / 2);
  });
}

TEST(ReduceValues, MeanInRangeNeverOverflows) {
  on_every_target([] {
    const Values mean =
        Numbers(DType::f16, ReduceOp::avg).source({65504}).source({65504}).divided_by(2).result();
    EXPECT_EQ(mean, Values{65504});
  });
}

TEST(ReduceValues, NarrowFloatsRoundOnceHoweverManySources) {
  on_every_target([] {
    // 2048 + 1 + 1: rounding after each step would give 2048 in float16.
    Numbers half(DType::f16, ReduceOp::sum);
    EXPECT_EQ(half.source({2048}).source({1}).source({1}).result(), Values{2050});
    Numbers brain(DType::bf16, ReduceOp::sum);
    EXPECT_EQ(brain.source({256}).source({1}).source({1}).result(), Values{258});
  });
}

TEST(ReduceValues, Fp8OverflowIsNanOrInfinity) {
  on_every_target([] {
    const Values a{448, 448, -448, 240};
    const Values b{16, 32, -448, 8};
    const Values e4m3 = Numbers(DType::f8e4m3fn, ReduceOp::sum).source(a).source(b).result();
    EXPECT_EQ(e4m3[0], 448) << "464 is the tie between 448 and the code of NaN";
    EXPECT_TRUE(std::isnan(e4m3[1]));
    EXPECT_TRUE(std::isnan(e4m3[2]));
    EXPECT_EQ(e4m3[3], 256) << "248 is a tie, to even";
    const Values e5m2 = Numbers(DType::f8e5m2, ReduceOp::sum)
                            .source({57344, 57344, -57344, 0x1p-16})
                            .source({4096, 2048, -57344, 0x1p-16})
                            .result();
    EXPECT_EQ(e5m2, (Values{kInf, 57344, -kInf, 0x1p-15}));
  });
}

TEST(ReduceValues, NanWinsInMinAndMaxWhereverItStands) {
  on_every_target([] {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f32, DType::f64}) {
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        for (std::size_t place = 0; place < 3; ++place) {
          std::array<Values, 3> values{Values(9, 1.0), Values(9, -2.0), Values(9, 0.5)};
          values[place] = Values(9, kNan);
          Numbers numbers(dtype, op);
          numbers.source(values[0]).source(values[1]).source(values[2]);
          for (const double value : numbers.result()) {
            EXPECT_TRUE(std::isnan(value)) << name(dtype) << ' ' << name(op) << ' ' << place;
          }
        }
      }
    }
  });
}

TEST(ReduceValues, MinusZeroIsTheLesserZeroInAnyOrder) {
  on_every_target([] {
    for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
      const auto result = [dtype](ReduceOp op) {
        return Numbers(dtype, op).source({0.0, -0.0}).source({-0.0, 0.0}).result();
      };
      for (const double least : result(ReduceOp::min)) {
        EXPECT_TRUE(std::signbit(least));
      }
      for (const double greatest : result(ReduceOp::max)) {
        EXPECT_FALSE(std::signbit(greatest));
      }
    }
  });
}

TEST(ReduceValues, PremulNeverFusesMultiplyAndAdd) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: rounding the product drops the last term, fusing keeps it.
  const double x = 1 + 0x1p-12;
  on_every_target([x] {
    const Values result = Numbers(DType::f32, ReduceOp::premul_sum)
                              .source(Values(19, -1 - 0x1p-11), 1)
                              .source(Values(19, x), x)
                              .result();
    EXPECT_EQ(result, Values(19, 0.0));
  });
}

TEST(ReduceValues, ComplexFactorsAndProducts) {
  using C = std::complex<float>;
  const C x{1, 2};
  const C y{3, -1};
  const std::array<const void*, 2> sources{&x, &y};
  const std::array<std::complex<double>, 2> factors{{{0, 1}, {2, 0}}};
  on_every_target([&] {
    const auto result = [&](ReduceOp op) {
      C out{};
      reduce_kernel(DType::complex64, op)({.sources = sources.data(),
                                           .count = 2,
                                           .out = &out,
                                           .elements = 1,
                                           .divisor = 2,
                                           .factors = factors.data()});
      return out;
    };
    EXPECT_EQ(result(ReduceOp::sum), (C{4, 1}));
    EXPECT_EQ(result(ReduceOp::avg), (C{2, 0.5}));
    EXPECT_EQ(result(ReduceOp::prod), (C{5, 5}));
    EXPECT_EQ(result(ReduceOp::premul_sum), (C{4, -1}));
  });
}

// ---- accumulators ----

class NarrowType : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] int codes() const { return 1 << (8 * static_cast<int>(element_bytes(GetParam()))); }
  [[nodiscard]] reference::Bytes every_code() const {
    reference::Bytes bytes(static_cast<std::size_t>(codes()) * element_bytes(GetParam()));
    for (int code = 0; code < codes(); ++code) {
      const auto index = static_cast<std::size_t>(code);
      if (element_bytes(GetParam()) == 2) {
        reference::set_element(bytes, index, static_cast<std::uint16_t>(code));
      } else {
        reference::set_element(bytes, index, static_cast<std::uint8_t>(code));
      }
    }
    return bytes;
  }
};

TEST_P(NarrowType, LoadsEveryCodeExactly) {
  const reference::Bytes bytes = every_code();
  const std::complex<double> factor{0.7, 0};
  on_every_target([&] {
    std::vector<float> plain(static_cast<std::size_t>(codes()));
    std::vector<float> scaled(plain.size());
    load_accumulator(GetParam(), bytes.data(), plain.data(), plain.size(), nullptr);
    load_accumulator(GetParam(), bytes.data(), scaled.data(), scaled.size(), &factor);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const float value = reference::decode(reference::format(GetParam()), static_cast<int>(i));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(plain[i]), std::bit_cast<std::uint32_t>(value)) << i;
      const float product = value * 0.7F;
      ASSERT_TRUE(product == scaled[i] || (std::isnan(product) && std::isnan(scaled[i]))) << i;
    }
  });
}

TEST_P(NarrowType, FinishesEveryCodeItsNeighboursAndTiesOnce) {
  const reference::Format format = reference::format(GetParam());
  std::vector<float> values;
  for (int code = 0; code < codes(); ++code) {
    const float value = reference::decode(format, code);
    const float next = reference::decode(format, (code + 1) % codes());
    const float tie = (value + next) / 2;
    values.insert(values.end(), {value, tie, std::nextafter(tie, 0.0F), std::nextafter(tie, next)});
  }
  for (const int divisor : {1, 3}) {
    std::vector<int> expected;
    for (const float value : values) {
      expected.push_back(reference::encode(format, value / static_cast<float>(divisor)));
    }
    on_every_target([&] {
      reference::Bytes out(values.size() * element_bytes(GetParam()));
      finish_accumulator(GetParam(), values.data(), out.data(), values.size(), divisor);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int code = element_bytes(GetParam()) == 2 ? reference::element<std::uint16_t>(out, i)
                                                        : reference::element<std::uint8_t>(out, i);
        ASSERT_EQ(code, expected[i]) << values[i] << " / " << divisor;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Accumulator, NarrowType,
                         testing::Values(DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Accumulator, OfWideTypesIsTheTypeItself) {
  const std::array<double, 3> in{1, 2.5, -3};
  const std::complex<double> factor{2, 0};
  std::array<double, 3> out{};
  load_accumulator(DType::f64, in.data(), out.data(), out.size(), nullptr);
  EXPECT_EQ(out, in);
  load_accumulator(DType::f64, in.data(), out.data(), out.size(), &factor);
  EXPECT_EQ(out, (std::array<double, 3>{2, 5, -6}));
  finish_accumulator(DType::f64, out.data(), out.data(), out.size(), 4);
  EXPECT_EQ(out, (std::array<double, 3>{0.5, 1.25, -1.5}));
  std::array<std::int16_t, 2> integers{-7, 7};
  finish_accumulator(DType::i16, integers.data(), integers.data(), integers.size(), 2);
  EXPECT_EQ(integers, (std::array<std::int16_t, 2>{-3, 3}));
  load_accumulator(DType::f64, nullptr, nullptr, 0, nullptr);
}

}  // namespace
}  // namespace tutti
