// Kernels of complex numbers: pairs of float lanes, real part first.
#include "kernels/families.hpp"

// Highway needs these lines in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_complex.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/float_ops-inl.h"
#include "kernels/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

/// Flips the sign of the real parts.
template <class D>
HWY_INLINE hn::Vec<D> negate_real(D, hn::Vec<D> v) {
  return hn::OddEven(v, hn::Neg(v));
}

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, every product and sum rounded.
template <class D>
HWY_INLINE hn::Vec<D> multiply(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto direct = hn::Mul(hn::DupEven(x), y);
  const auto crossed = hn::Mul(hn::DupOdd(x), hn::Reverse2(d, y));
  return hn::Add(direct, negate_real(d, crossed));
}

struct ComplexSum : FloatSum {
  static constexpr std::size_t kMinLanes = 2;
};

template <typename T>
struct ComplexAvg : FloatAvg<T> {
  static constexpr std::size_t kMinLanes = 2;
};

struct ComplexProd : FloatOp {
  static constexpr std::size_t kMinLanes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D d, hn::Vec<D> product, hn::Vec<D> v, const OpArgs&, int) {
    return multiply(d, product, v);
  }
};

/// A factor without imaginary part scales both parts, so that an infinite part stays what it is.
template <typename T>
struct ComplexPremulSum : FloatOp {
  static constexpr std::size_t kMinLanes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D d, hn::Vec<D> v, const OpArgs& args) {
    return scaled(d, v, args, 0);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D d, hn::Vec<D> sum, hn::Vec<D> v, const OpArgs& args, int k) {
    return hn::Add(sum, scaled(d, v, args, k));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> scaled(D d, hn::Vec<D> v, const OpArgs& args, int k) {
    const auto direct = hn::Mul(v, hn::Set(d, static_cast<T>(args.factors[k].real())));
    const T imaginary = static_cast<T>(args.factors[k].imag());
    if (imaginary == T{0}) {
      return direct;
    }
    const auto crossed = hn::Mul(hn::Reverse2(d, v), hn::Set(d, imaginary));
    return hn::Add(direct, negate_real(d, crossed));
  }
};

template <typename T>
ReduceKernel complex_kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_any<Plain<T>, ComplexSum>;
    case ReduceOp::prod:
      return reduce_any<Plain<T>, ComplexProd>;
    case ReduceOp::avg:
      return reduce_any<Plain<T>, ComplexAvg<T>>;
    case ReduceOp::premul_sum:
      return reduce_any<Plain<T>, ComplexPremulSum<T>>;
    default:
      return nullptr;
  }
}

ReduceKernel pick_complex(DType dtype, ReduceOp op) {
  return dtype == DType::complex64    ? complex_kernel_of<float>(op)
         : dtype == DType::complex128 ? complex_kernel_of<double>(op)
                                      : nullptr;
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(pick_complex);

ReduceKernel complex_kernel(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(pick_complex)(dtype, op);
}

}  // namespace tutti
#endif
