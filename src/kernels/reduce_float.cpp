// Kernels of float32 and float64.
#include "kernels/families.hpp"

// Highway needs these lines in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/float_ops-inl.h"
#include "kernels/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

template <typename T>
ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_hot<Plain<T>, FloatSum>;
    case ReduceOp::prod:
      return reduce_any<Plain<T>, FloatProd>;
    case ReduceOp::min:
      return reduce_any<Plain<T>, FloatMin>;
    case ReduceOp::max:
      return reduce_any<Plain<T>, FloatMax>;
    case ReduceOp::avg:
      return reduce_any<Plain<T>, FloatAvg<T>>;
    case ReduceOp::premul_sum:
      return reduce_any<Plain<T>, FloatPremulSum<T>>;
    default:
      return nullptr;
  }
}

ReduceKernel pick_float(DType dtype, ReduceOp op) {
  return dtype == DType::f32   ? kernel_of<float>(op)
         : dtype == DType::f64 ? kernel_of<double>(op)
                               : nullptr;
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(pick_float);

ReduceKernel float_kernel(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(pick_float)(dtype, op);
}

}  // namespace tutti
#endif
