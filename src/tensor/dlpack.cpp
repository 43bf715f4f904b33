// DLPack in and out, version 0.6 of its header: no bool, no fp8, no versioned capsule.
// An exported tensor is one heap object that holds the Tensor, and dies in the consumer's call of
// the deleter. An imported one is owned by a Holder, which is armed as the last step: whatever
// throws before leaves `managed` to the caller.
#include "base/limits.hpp"
#include "tensor/layout.hpp"

#include <tutti/dlpack.hpp>
#include <tutti/error.hpp>

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>
#include <optional>
#include <utility>

namespace tutti {
namespace {

struct Row {
  DType dtype;
  DLDataTypeCode code;
};

// The bits are those of the element size.
constexpr std::array kRows{
    Row{DType::u8, kDLUInt},
    Row{DType::u16, kDLUInt},
    Row{DType::u32, kDLUInt},
    Row{DType::u64, kDLUInt},
    Row{DType::i8, kDLInt},
    Row{DType::i16, kDLInt},
    Row{DType::i32, kDLInt},
    Row{DType::i64, kDLInt},
    Row{DType::f16, kDLFloat},
    Row{DType::bf16, kDLBfloat},
    Row{DType::f32, kDLFloat},
    Row{DType::f64, kDLFloat},
    Row{DType::complex64, kDLComplex},
    Row{DType::complex128, kDLComplex},
};

std::size_t bits(const Row& row) { return element_bytes(row.dtype) * CHAR_BIT; }

DLDataType to_dl(DType dtype) {
  const auto* row = std::ranges::find(kRows, dtype, &Row::dtype);
  if (row == kRows.end()) {
    throw Unsupported(fmt::format(
        "DLPack export of {}: DLPack 0.6 has no such type; view the bytes as uint8", name(dtype)));
  }
  return {static_cast<std::uint8_t>(row->code), static_cast<std::uint8_t>(bits(*row)), 1};
}

DType from_dl(DLDataType type) {
  const auto* row = std::ranges::find_if(kRows, [&](const Row& candidate) {
    return candidate.code == type.code && bits(candidate) == type.bits;
  });
  if (row == kRows.end() || type.lanes != 1) {
    throw Unsupported(fmt::format(
        "DLPack import of type code {} with {} bits and {} lanes; integers, floats, bfloat16 and "
        "complex numbers of one lane are supported",
        type.code, type.bits, type.lanes));
  }
  return row->dtype;
}

struct Exported {
  Tensor tensor;
  Shape shape;
  Shape strides;
  DLManagedTensor managed{};
};

struct Holder {
  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    if (managed != nullptr && managed->deleter != nullptr) {
      managed->deleter(managed);
    }
  }
  DLManagedTensor* managed = nullptr;
};

void check_import(const DLManagedTensor* managed) {
  if (managed == nullptr) {
    throw InvalidArgument("DLPack import of a null pointer");
  }
  const DLTensor& source = managed->dl_tensor;
  if (source.device.device_type != kDLCPU) {
    throw Unsupported(
        fmt::format("DLPack import from device type {}, id {}; only the CPU (type "
                    "{}) is supported, copy the tensor there first",
                    static_cast<int>(source.device.device_type), source.device.device_id,
                    static_cast<int>(kDLCPU)));
  }
  if (source.ndim < 0 || source.ndim > static_cast<int>(limits::kMaxDims)) {
    throw InvalidArgument(
        fmt::format("DLPack import of a tensor with {} dimensions; 0 to {} are "
                    "possible",
                    source.ndim, limits::kMaxDims));
  }
  if (source.ndim > 0 && source.shape == nullptr) {
    throw InvalidArgument(
        fmt::format("DLPack import of {} dimensions without a shape", source.ndim));
  }
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  if (!tensor.defined()) {
    throw InvalidArgument("DLPack export of an undefined tensor");
  }
  const DLDataType type = to_dl(tensor.dtype());
  auto exported = std::make_unique<Exported>(
      Exported{.tensor = tensor, .shape = tensor.shape(), .strides = tensor.strides()});
  // Consumers may refuse null pointers even where there is no dimension to read.
  exported->shape.reserve(1);
  exported->strides.reserve(1);
  exported->managed = {
      .dl_tensor = {.data = tensor.data(),
                    .device = {.device_type = kDLCPU, .device_id = 0},
                    .ndim = static_cast<int>(tensor.dim()),
                    .dtype = type,
                    .shape = exported->shape.data(),
                    .strides = exported->strides.data(),
                    .byte_offset = 0},
      .manager_ctx = exported.get(),
      .deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); }};
  return &exported.release()->managed;
}

Tensor from_dlpack(DLManagedTensor* managed) {
  check_import(managed);
  const DLTensor& source = managed->dl_tensor;
  const DType dtype = from_dl(source.dtype);
  Shape shape(source.shape, source.shape + source.ndim);
  Shape strides;
  if (source.strides != nullptr) {
    strides.assign(source.strides, source.strides + source.ndim);
  }
  void* data =
      source.data == nullptr ? nullptr : static_cast<std::byte*>(source.data) + source.byte_offset;
  const auto holder = std::make_shared<Holder>();
  Tensor tensor = Tensor::from_blob(data, std::move(shape), dtype, std::move(strides), holder);
  holder->managed = managed;
  return tensor;
}

}  // namespace tutti
