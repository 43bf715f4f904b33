// Which family serves a type, and what accumulators mean for each.
#include "kernels/reduce.hpp"

#include "base/ensure.hpp"
#include "kernels/families.hpp"

#include <cstring>

namespace tutti {

namespace {

ReduceKernel kernel_or_fail(DType dtype, ReduceOp op) {
  const ReduceKernel kernel = reduce_kernel(dtype, op);
  ensure(kernel != nullptr, "an accumulator operation that the type allows");
  return kernel;
}

void move_elements(DType dtype, const void* in, void* out, std::size_t elements) {
  if (out != in && elements > 0) {
    std::memmove(out, in, elements * element_bytes(dtype));
  }
}

}  // namespace

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
  if (is_narrow(dtype)) {
    return narrow_kernel(dtype, op);
  }
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
    case DTypeClass::integer:
      return integer_kernel(dtype, op);
    case DTypeClass::floating:
      return float_kernel(dtype, op);
    case DTypeClass::complex:
      return complex_kernel(dtype, op);
  }
  return nullptr;
}

void load_accumulator(DType dtype, const void* in, void* out, std::size_t elements,
                      const std::complex<double>* factor) {
  if (is_narrow(dtype)) {
    const float scale = factor != nullptr ? static_cast<float>(factor->real()) : 1.0F;
    load_kernel(dtype)({.in = in, .out = out, .elements = elements, .factor = scale});
  } else if (factor != nullptr) {
    kernel_or_fail(dtype, ReduceOp::premul_sum)(
        {.sources = &in, .count = 1, .out = out, .elements = elements, .factors = factor});
  } else {
    move_elements(dtype, in, out, elements);
  }
}

void finish_accumulator(DType dtype, const void* in, void* out, std::size_t elements, int divisor) {
  if (is_narrow(dtype)) {
    finish_kernel(dtype)(
        {.in = in, .out = out, .elements = elements, .divisor = static_cast<float>(divisor)});
  } else if (divisor != 1) {
    kernel_or_fail(dtype, ReduceOp::avg)(
        {.sources = &in, .count = 1, .out = out, .elements = elements, .divisor = divisor});
  } else {
    move_elements(dtype, in, out, elements);
  }
}

}  // namespace tutti
