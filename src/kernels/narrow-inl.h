// Narrow float elements: loaded as float32 lanes, rounded to nearest even once when they are
// stored. Where the CPU converts float16 itself that is used; the integer arithmetic here gives the
// same bits. Highway's own bfloat16 demotion truncates, and its float16 without F16C as well.
// clang-format off
#if defined(TUTTI_KERNELS_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_NARROW_INL_H_
#undef TUTTI_KERNELS_NARROW_INL_H_
#else
#define TUTTI_KERNELS_NARROW_INL_H_
#endif
// clang-format on

#include "kernels/sweep-inl.h"

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using U32 = hn::RebindToUnsigned<D>;

/// Codes of a narrow type as 32-bit lanes, one per float32 lane of `d`.
template <class D, typename Stored>
HWY_INLINE hn::Vec<U32<D>> load_codes(D, const Stored* from) {
  return hn::PromoteTo(U32<D>(), hn::LoadU(hn::Rebind<Stored, D>(), from));
}

template <class D, typename Stored>
HWY_INLINE void store_codes(D, hn::Vec<U32<D>> codes, Stored* to) {
  const hn::Rebind<Stored, D> narrow;
  const hn::RebindToSigned<D> signed_lanes;  // what Highway demotes from; codes are small
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(signed_lanes, codes)), narrow, to);
}

enum class Infinity { none, present };

/// IEEE-like formats: sign, exponent, mantissa. With infinities the largest exponent is theirs and
/// NaN's; without, only the code of all ones is not finite.
template <unsigned kExponent, unsigned kMantissa, Infinity kInfinity>
struct SmallFloat {
  static constexpr std::uint32_t kBias = (1U << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kRebias = 127 - kBias;
  static constexpr std::uint32_t kMagnitude = (1U << (kExponent + kMantissa)) - 1;
  static constexpr unsigned kShift = 23 - kMantissa;
  /// First magnitude above the finite ones: infinity, or the only NaN.
  static constexpr std::uint32_t kOverflow =
      kInfinity == Infinity::present ? ((1U << kExponent) - 1) << kMantissa : kMagnitude;
  static constexpr std::uint32_t kNan =
      kInfinity == Infinity::present ? kOverflow | (1U << (kMantissa - 1)) : kMagnitude;
  /// The power of two whose last place is the last place of the subnormals: adding it makes the
  /// float unit round them, subtracting it makes it normalise them.
  static constexpr std::uint32_t kAnchor = (127 + 1 - kBias - kMantissa + 23) << 23;

  template <class D>
  static hn::Vec<D> decode(D d, hn::Vec<U32<D>> code) {
    const U32<D> du;
    const auto magnitude = hn::And(code, hn::Set(du, kMagnitude));
    const auto sign = hn::ShiftLeft<31 - kExponent - kMantissa>(hn::Xor(code, magnitude));
    const auto wide = hn::ShiftLeft<kShift>(magnitude);
    const auto normal = hn::Add(wide, hn::Set(du, kRebias << 23));
    const auto anchor = hn::Set(du, kAnchor);
    const auto subnormal =
        hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Or(magnitude, anchor)), hn::BitCast(d, anchor)));
    // Infinity and NaN keep their mantissa: exponent of all ones over the shifted code.
    const auto special = kInfinity == Infinity::present ? hn::Or(wide, hn::Set(du, 0x7f800000U))
                                                        : hn::Set(du, 0x7fc00000U);
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 1U << kMantissa)), subnormal, normal);
    bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, kOverflow)), bits, special);
    return hn::BitCast(d, hn::Or(bits, sign));
  }

  template <class D>
  static hn::Vec<U32<D>> encode(D d, hn::Vec<D> v) {
    const U32<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffU));
    const auto sign = hn::ShiftRight<31 - kExponent - kMantissa>(hn::Xor(bits, magnitude));
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, 1U));
    const auto half = hn::Set(du, (1U << (kShift - 1)) - 1);
    const auto rounded = hn::ShiftRight<kShift>(hn::Add(magnitude, hn::Add(half, odd)));
    const auto normal =
        hn::Min(hn::Sub(rounded, hn::Set(du, kRebias << kMantissa)), hn::Set(du, kOverflow));
    const auto anchor = hn::Set(du, kAnchor);
    const auto subnormal = hn::Sub(
        hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, anchor))), anchor);
    const auto least_normal = hn::Set(du, (kRebias + 1) << 23);
    auto code = hn::IfThenElse(hn::Lt(magnitude, least_normal), subnormal, normal);
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000U)), hn::Set(du, kNan), code);
    return hn::Or(code, sign);
  }
};

template <typename Code, class Format>
struct Coded {
  static constexpr ByFour kByFour = ByFour::never;  // one vector is work enough
  using Stored = Code;
  using Lane = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Code* from) {
    return Format::decode(d, load_codes(d, from));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> settled(D d, hn::Vec<D> v) {
    return same_nan(d, v);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Code* to) {
    store_codes(d, Format::encode(d, v), to);
  }
};

using Float8E4M3 = Coded<std::uint8_t, SmallFloat<4, 3, Infinity::none>>;
using Float8E5M2 = Coded<std::uint8_t, SmallFloat<5, 2, Infinity::present>>;

#if HWY_ARCH_X86 && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)
struct Float16 {
  static constexpr ByFour kByFour = ByFour::sums;
  using Stored = std::uint16_t;
  using Lane = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> codes;
    const hn::Rebind<hwy::float16_t, D> halves;
    return hn::PromoteTo(d, hn::BitCast(halves, hn::LoadU(codes, from)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> settled(D d, hn::Vec<D> v) {
    return same_nan(d, v);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint16_t* to) {
    hn::StoreU(encode(d, v), hn::Rebind<std::uint16_t, D>(), to);
  }
  template <class D>
  static HWY_INLINE Quad<hn::Vec<D>> load4(D d, const std::uint16_t* from) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    return {load(d, from), load(d, from + kLanes), load(d, from + 2 * kLanes),
            load(d, from + 3 * kLanes)};
  }
  template <class D>
  static HWY_INLINE Quad<hn::Vec<D>> settled4(D d, const Quad<hn::Vec<D>>& v) {
    return same_nan4(d, v);
  }
  template <StoreType kStore, class D>
  static HWY_INLINE void store4(D d, const Quad<hn::Vec<D>>& v, std::uint16_t* to) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    if constexpr (kStore == StoreType::streaming) {
      const hn::Repartition<std::uint16_t, D> whole;
      hn::Stream(hn::Combine(whole, encode(d, v.b), encode(d, v.a)), whole, to);
      hn::Stream(hn::Combine(whole, encode(d, v.d), encode(d, v.c)), whole, to + 2 * kLanes);
    } else {
      store(d, v.a, to);
      store(d, v.b, to + kLanes);
      store(d, v.c, to + 2 * kLanes);
      store(d, v.d, to + 3 * kLanes);
    }
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> encode(D, hn::Vec<D> v) {
    const hn::Rebind<hwy::float16_t, D> halves;
    return hn::BitCast(hn::Rebind<std::uint16_t, D>(), hn::DemoteTo(halves, v));
  }
};
#else
using Float16 = Coded<std::uint16_t, SmallFloat<5, 10, Infinity::present>>;
#endif

/// bfloat16 is the upper half of a float32. Four vectors are split into even and odd elements,
/// which needs no shuffle across lanes, and rounded two vectors at once as 16-bit halves.
struct BFloat16 {
  static constexpr ByFour kByFour = ByFour::always;
  using Stored = std::uint16_t;
  using Lane = float;
  template <class D>
  using Codes = hn::Repartition<std::uint16_t, D>;
  template <class V>
  struct Pair {
    V low, high;
  };

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    return hn::BitCast(d, hn::ShiftLeft<16>(load_codes(d, from)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> settled(D d, hn::Vec<D> v) {
    return same_nan(d, v);
  }
  /// Rounding cannot change a settled NaN into a number.
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint16_t* to) {
    const U32<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffU)));
    store_codes(d, hn::ShiftRight<16>(rounded), to);
  }
  template <class D>
  static HWY_INLINE Quad<hn::Vec<D>> load4(D d, const std::uint16_t* from) {
    const auto low = load_pairs(d, from);
    const auto high = load_pairs(d, from + 2 * hn::MaxLanes(D()));
    return {even(d, low), odd(d, low), even(d, high), odd(d, high)};
  }
  /// As codes: they are half as many vectors.
  template <class D>
  static HWY_INLINE auto settled4(D d, const Quad<hn::Vec<D>>& v) {
    return Pair<hn::Vec<Codes<D>>>{encode_pairs(d, v.a, v.b), encode_pairs(d, v.c, v.d)};
  }
  template <StoreType kStore, class D>
  static HWY_INLINE void store4(D d, const Pair<hn::Vec<Codes<D>>>& v, std::uint16_t* to) {
    put_vector<kStore>(Codes<D>(), v.low, to);
    put_vector<kStore>(Codes<D>(), v.high, to + 2 * hn::MaxLanes(d));
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<U32<D>> load_pairs(D, const std::uint16_t* from) {
    return hn::BitCast(U32<D>(), hn::LoadU(Codes<D>(), from));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> even(D d, hn::Vec<U32<D>> pairs) {
    return hn::BitCast(d, hn::ShiftLeft<16>(pairs));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> odd(D d, hn::Vec<U32<D>> pairs) {
    return hn::BitCast(d, hn::And(pairs, hn::Set(U32<D>(), 0xffff0000U)));
  }
  /// Nearest even: the code goes up by one if the lower half is above 0x8000, or equal to it and
  /// the code is odd; that is the carry out of lower + 0x7ffe + (code & 1) + 1, which is bit 15 of
  /// the average. A NaN that was computed is quiet, so its code is already a NaN's.
  template <class D>
  static HWY_INLINE hn::Vec<Codes<D>> encode_pairs(D, hn::Vec<D> even, hn::Vec<D> odd) {
    const U32<D> du;
    const Codes<D> d16;
    const hn::RebindToSigned<Codes<D>> signed16;
    const auto even_shifted = hn::BitCast(d16, hn::ShiftRight<16>(hn::BitCast(du, even)));
    const auto odd_shifted = hn::BitCast(d16, hn::ShiftLeft<16>(hn::BitCast(du, odd)));
    const auto code = hn::OddEven(hn::BitCast(d16, odd), even_shifted);
    const auto lower = hn::OddEven(odd_shifted, hn::BitCast(d16, even));
    const auto half = hn::OrAnd(hn::Set(d16, 0x7ffe), code, hn::Set(d16, 1));
    const auto rounded = hn::Add(code, hn::ShiftRight<15>(hn::AverageRound(lower, half)));
    const auto magnitude = hn::BitCast(signed16, hn::And(code, hn::Set(d16, 0x7fff)));
    const auto nan = hn::RebindMask(d16, hn::Gt(magnitude, hn::Set(signed16, 0x7f80)));
    return hn::IfThenElse(nan, hn::Set(d16, 0x7fc0), rounded);
  }
};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
