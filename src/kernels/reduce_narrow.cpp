// Kernels of float16, bfloat16 and fp8, which are reduced in float32, and their conversions from
// and to float32 accumulators.
#include "kernels/families.hpp"

// Highway needs these lines in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_narrow.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/float_ops-inl.h"
#include "kernels/narrow-inl.h"
#include "kernels/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// ---- accumulators ----

template <class Element>
struct LoadBody {
  static constexpr std::size_t kMinLanes = 1;
  static constexpr bool kByFour = false;
  template <class D>
  HWY_INLINE hn::Vec<D> value(D d, std::size_t i) const {
    return same_nan(d, hn::Mul(Element::load(d, in + i), hn::Set(d, factor)));
  }
  template <class D>
  HWY_INLINE void put(D d, std::size_t i, hn::Vec<D> v) const {
    hn::StoreU(v, d, out + i);
  }
  const typename Element::Stored* in;
  float* out;
  float factor;
};

template <class Element>
struct FinishBody {
  static constexpr std::size_t kMinLanes = 1;
  static constexpr bool kByFour = false;
  template <class D>
  HWY_INLINE hn::Vec<D> value(D d, std::size_t i) const {
    const auto v = hn::LoadU(d, in + i);
    return Element::settled(d, divisor == 1.0F ? v : hn::Div(v, hn::Set(d, divisor)));
  }
  template <class D>
  HWY_INLINE void put(D d, std::size_t i, hn::Vec<D> v) const {
    Element::store(d, v, out + i);
  }
  const float* in;
  typename Element::Stored* out;
  float divisor;
};

template <class Element>
void load_narrow(const ConvertArgs& args) {
  const LoadBody<Element> body{static_cast<const typename Element::Stored*>(args.in),
                               static_cast<float*>(args.out), args.factor};
  sweep(WidestTag<float, 1>(), body, args.elements);
}

template <class Element>
void finish_narrow(const ConvertArgs& args) {
  const FinishBody<Element> body{static_cast<const float*>(args.in),
                                 static_cast<typename Element::Stored*>(args.out), args.divisor};
  sweep(WidestTag<float, 1>(), body, args.elements);
}

// ---- the tables ----

template <class Element>
ReduceKernel sum_kernel() {
  if constexpr (Element::kByFour != ByFour::never) {
    return reduce_hot<Element, FloatSum>;
  } else {
    return reduce_any<Element, FloatSum>;
  }
}

template <class Element>
ReduceKernel narrow_kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return sum_kernel<Element>();
    case ReduceOp::prod:
      return reduce_any<Element, FloatProd>;
    case ReduceOp::min:
      return reduce_any<Element, FloatMin>;
    case ReduceOp::max:
      return reduce_any<Element, FloatMax>;
    case ReduceOp::avg:
      return reduce_any<Element, FloatAvg<float>>;
    case ReduceOp::premul_sum:
      return reduce_any<Element, FloatPremulSum<float>>;
    default:
      return nullptr;
  }
}

ReduceKernel pick_narrow(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::f16:
      return narrow_kernel_of<Float16>(op);
    case DType::bf16:
      return narrow_kernel_of<BFloat16>(op);
    case DType::f8e4m3fn:
      return narrow_kernel_of<Float8E4M3>(op);
    case DType::f8e5m2:
      return narrow_kernel_of<Float8E5M2>(op);
    default:
      return nullptr;
  }
}

ConvertKernel pick_load(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return load_narrow<Float16>;
    case DType::bf16:
      return load_narrow<BFloat16>;
    case DType::f8e4m3fn:
      return load_narrow<Float8E4M3>;
    case DType::f8e5m2:
      return load_narrow<Float8E5M2>;
    default:
      return nullptr;
  }
}

ConvertKernel pick_finish(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return finish_narrow<Float16>;
    case DType::bf16:
      return finish_narrow<BFloat16>;
    case DType::f8e4m3fn:
      return finish_narrow<Float8E4M3>;
    case DType::f8e5m2:
      return finish_narrow<Float8E5M2>;
    default:
      return nullptr;
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(pick_narrow);
HWY_EXPORT(pick_load);
HWY_EXPORT(pick_finish);

ReduceKernel narrow_kernel(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(pick_narrow)(dtype, op);
}

ConvertKernel load_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(pick_load)(dtype); }

ConvertKernel finish_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(pick_finish)(dtype); }

}  // namespace tutti
#endif
