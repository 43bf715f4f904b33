// Tensor exchange through DLPack. The DLManagedTensor itself is declared by <dlpack/dlpack.h>;
// these functions take it as a forward declaration so that the header needs nothing but the
// standard library.
#pragma once

#include <tutti/tensor.hpp>

struct DLManagedTensor;

#pragma GCC visibility push(default)
namespace tutti {

/// Exports a view: the consumer calls its deleter. Throws Unsupported for dtypes that DLPack lacks
/// (bool, fp8).
DLManagedTensor* to_dlpack(const Tensor& tensor);

/// Takes over `managed` (its deleter runs with the last view). Throws Unsupported for a dtype, lane
/// count or device that tutti lacks; `managed` is then left to the caller.
Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace tutti
#pragma GCC visibility pop
