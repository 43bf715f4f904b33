// Reduce operations on float vectors. An operation is applied as last(next(next(first(s0), s1), s2)
// ...). What NaN comes out depends on the CPU and on the order in which the compiler added: the
// element that stores the result gives every NaN the same bits (Element::settled, same_nan).
// clang-format off
#if defined(TUTTI_KERNELS_FLOAT_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_FLOAT_OPS_INL_H_
#undef TUTTI_KERNELS_FLOAT_OPS_INL_H_
#else
#define TUTTI_KERNELS_FLOAT_OPS_INL_H_
#endif
// clang-format on

#include "kernels/families.hpp"

#include <hwy/highway.h>

#include <complex>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// a < b ? a : b; the second if they are equal or unordered.
template <class V>
HWY_INLINE V lesser(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  return hn::Min(a, b);  // minps is defined so; other sets differ in NaN and signed zeros
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}

/// The lesser in the order -0 < +0; a NaN if either is NaN. Both ways round give the same number
/// unless the operands are zeros of unlike sign or unordered, and then the union of the bits is
/// -0 or still a NaN.
template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::Or(lesser(a, b), lesser(b, a));
}

struct FloatOp {
  static constexpr std::size_t kMinLanes = 1;
  static constexpr bool kSum = false;
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D, hn::Vec<D> v, const OpArgs&) {
    return v;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D, hn::Vec<D> sum, const OpArgs&) {
    return sum;
  }
};

struct FloatSum : FloatOp {
  static constexpr bool kSum = true;
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> sum, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Add(sum, v);
  }
};

struct FloatProd : FloatOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> product, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Mul(product, v);
  }
};

struct FloatMin : FloatOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> least, hn::Vec<D> v, const OpArgs&, int) {
    return minimum(least, v);
  }
};

/// max(a, b) = -min(-a, -b), because minimum() treats zeros and NaN by the union of bits.
struct FloatMax : FloatOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D, hn::Vec<D> v, const OpArgs&) {
    return hn::Neg(v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> least, hn::Vec<D> v, const OpArgs&, int) {
    return minimum(least, hn::Neg(v));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D, hn::Vec<D> least, const OpArgs&) {
    return hn::Neg(least);
  }
};

template <typename T>
struct FloatAvg : FloatSum {
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D d, hn::Vec<D> sum, const OpArgs& args) {
    return hn::Div(sum, hn::Set(d, static_cast<T>(args.divisor)));
  }
};

/// The product is rounded, then added: this file must be compiled without contraction.
template <typename T>
struct FloatPremulSum : FloatOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D d, hn::Vec<D> v, const OpArgs& args) {
    return hn::Mul(v, factor(d, args, 0));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D d, hn::Vec<D> sum, hn::Vec<D> v, const OpArgs& args, int k) {
    return hn::Add(sum, hn::Mul(v, factor(d, args, k)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> factor(D d, const OpArgs& args, int k) {
    return hn::Set(d, static_cast<T>(args.factors[k].real()));
  }
};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
