// Element-wise reduction of n sources into one destination in one pass, for every element type and
// reduce op. Each family is one source file of plain loops, compiled once per instruction set by
// Highway; the table below is what everybody calls.
//
// Order: ((s0 op s1) op s2) ..., never contracted to fused operations, so that a result depends
// only on the inputs and their order: its bits are the same under every instruction set, alignment
// and cut into chunks. For that a NaN result has one bit pattern per type, and min and max count -0
// as less than +0. float16, bfloat16 and fp8 accumulate in float32 and round once.
#pragma once

#include "kernels/copy.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <complex>
#include <cstddef>

namespace tutti {

struct ReduceArgs {
  const void* const* sources = nullptr;
  int count = 0;         ///< number of sources, at least 1
  void* out = nullptr;   ///< may be exactly one of the sources
  void* also = nullptr;  ///< a second destination for the same result, or null
  /// Streaming: a hint. Sums of floats follow it where a destination lies at a multiple of
  /// kStreamAlignment.
  StoreType out_store = StoreType::cached;
  StoreType also_store = StoreType::cached;
  std::size_t elements = 0;
  int divisor = 1;                                ///< avg: the sum is divided by it before rounding
  const std::complex<double>* factors = nullptr;  ///< premul_sum: one per source
};
using ReduceKernel = void (*)(const ReduceArgs&);

/// The kernel of (dtype, op) for this CPU; null where the combination is not defined
/// (docs/algorithms.md, "Reduce operations"). prod of complex numbers has a kernel.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op);

// ---- accumulators: partial results that travel between ranks ----
// Narrow floats travel as float32 while they are partial, so that they are rounded once.

/// float32 for float16, bfloat16 and fp8; else the type itself.
constexpr DType accumulator(DType dtype) { return is_narrow(dtype) ? DType::f32 : dtype; }

/// out[i] = accumulator(in[i]) (* factor, for premul_sum; null: 1). `out` may be `in` if the types
/// agree.
void load_accumulator(DType dtype, const void* in, void* out, std::size_t elements,
                      const std::complex<double>* factor);
/// out[i] = dtype(in[i] / divisor), rounded once. `out` may be `in` if the types agree.
void finish_accumulator(DType dtype, const void* in, void* out, std::size_t elements, int divisor);

/// Name of the instruction set in use, such as "AVX3", for `tutti info`.
const char* kernel_target();

}  // namespace tutti
