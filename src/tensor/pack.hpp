// Copies between strided layouts. What travels between ranks is always the row-major logical order
// of a tensor, whatever its strides: `pack` makes it, `unpack` scatters it back.
#pragma once

#include <tutti/tensor.hpp>

namespace tutti {

/// Writes source.bytes() bytes to `target`, in row-major logical order. Any strides: negative and 0
/// (expanded) too. `target` must not overlap the source, and may be unaligned.
void pack(const Tensor& source, void* target);

/// Reads target.bytes() bytes in row-major logical order. Where indices of `target` share memory,
/// which element stays is unspecified; callers refuse such outputs (Tensor::overlaps_itself).
void unpack(const void* source, const Tensor& target);

/// Copies between two layouts of equal shape and dtype whose memory does not overlap, or is the
/// same in the same layout.
void copy_elements(const Tensor& source, const Tensor& target);

/// Writes the one element at `value` to every index of `target`.
void fill_elements(const void* value, const Tensor& target);

}  // namespace tutti
