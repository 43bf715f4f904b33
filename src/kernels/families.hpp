// The families of kernels: one source file each, compiled per instruction set. reduce.cpp asks them
// for the kernel of the set in use; nobody else does.
#pragma once

#include "kernels/reduce.hpp"

namespace tutti {

/// Conversion between a narrow float type and its float32 accumulator.
struct ConvertArgs {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t elements = 0;
  float factor = 1.0F;   ///< load: out = float32(in) * factor
  float divisor = 1.0F;  ///< finish: out = narrow(in / divisor)
};
using ConvertKernel = void (*)(const ConvertArgs&);

/// What an operation needs to know of a call. Copied field by field: the caller has just written
/// the arguments, and wide loads of narrow stores would wait for them to reach the cache.
struct OpArgs {
  int divisor;
  const std::complex<double>* factors;
};

// Each returns null for a type of another family or a combination that is not defined.
ReduceKernel integer_kernel(DType dtype, ReduceOp op);
ReduceKernel float_kernel(DType dtype, ReduceOp op);
ReduceKernel narrow_kernel(DType dtype, ReduceOp op);
ReduceKernel complex_kernel(DType dtype, ReduceOp op);

/// Of narrow float types only.
ConvertKernel load_kernel(DType dtype);
ConvertKernel finish_kernel(DType dtype);

}  // namespace tutti
