// Making tensors, owning their memory, and reading and writing elements. Views are in views.cpp,
// text in print.cpp.
#include "base/limits.hpp"
#include "tensor/layout.hpp"
#include "tensor/pack.hpp"
#include "tensor/scalar.hpp"

#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

namespace tutti {
namespace {

constexpr std::align_val_t kAlignment{64};

/// What every storage pointer points at: it only says "defined", the owner behind it counts.
void* defined_marker() {
  static constexpr std::byte kMarker{};
  return const_cast<std::byte*>(&kMarker);
}

std::shared_ptr<void> allocate(std::size_t bytes, const Shape& shape, DType dtype) {
  void* memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow);
  if (memory == nullptr) {
    throw InvalidArgument(fmt::format("shape {} of {} needs {} bytes, which cannot be allocated",
                                      layout::text(shape), name(dtype), bytes));
  }
  return {memory, [](void* p) { ::operator delete(p, kAlignment); }};
}

void require_defined(const Tensor& tensor, const char* what) {
  if (!tensor.defined()) {
    throw InvalidArgument(fmt::format(
        "{} of an undefined tensor; make it with empty, zeros, full, of or from_blob", what));
  }
}

/// Address of element number `i` in row-major order.
std::byte* address(const Tensor& tensor, std::size_t i) {
  if (i >= tensor.elements()) {
    throw InvalidArgument(fmt::format("element {} of a tensor with {} elements, shape {}", i,
                                      tensor.elements(), layout::text(tensor.shape())));
  }
  auto rest = static_cast<std::int64_t>(i);
  std::int64_t offset = 0;
  for (std::size_t d = tensor.shape().size(); d-- > 0;) {
    offset += rest % tensor.shape()[d] * tensor.strides()[d];
    rest /= tensor.shape()[d];
  }
  return tensor.data_as<std::byte>() +
         offset * static_cast<std::int64_t>(element_bytes(tensor.dtype()));
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.strides() == b.strides();
}

}  // namespace

Tensor Tensor::empty(Shape shape, DType dtype) {
  if (static_cast<std::size_t>(dtype) >= kDTypeCount) {
    throw InvalidArgument(fmt::format("dtype {} is unknown; there are {}",
                                      static_cast<unsigned>(dtype), kDTypeCount));
  }
  const std::size_t bytes = layout::count_elements(shape, dtype) * element_bytes(dtype);
  std::shared_ptr<void> memory = allocate(bytes, shape, dtype);
  void* data = memory.get();
  return from_blob(data, std::move(shape), dtype, {}, std::move(memory));
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
  Tensor tensor = empty(std::move(shape), dtype);
  std::memset(tensor.data_, 0, tensor.bytes());
  return tensor;
}

Tensor Tensor::full(Shape shape, std::complex<double> value, DType dtype) {
  Tensor tensor = empty(std::move(shape), dtype);
  tensor.fill(value);
  return tensor;
}

Tensor Tensor::arange(std::int64_t count, DType dtype, double start, double step) {
  Tensor tensor = empty({count}, dtype);
  auto* target = tensor.data_as<std::byte>();
  for (std::int64_t i = 0; i < count; ++i) {
    scalar::write(dtype, target, start + static_cast<double>(i) * step);
    target += element_bytes(dtype);
  }
  return tensor;
}

Tensor Tensor::from_blob(void* data, Shape shape, DType dtype, Shape strides,
                         std::shared_ptr<void> owner) {
  const std::size_t elements = layout::count_elements(shape, dtype);
  if (strides.empty()) {
    strides = layout::row_major_strides(shape);
  }
  layout::check_strides(shape, strides, dtype);
  if (data == nullptr && elements != 0) {
    throw InvalidArgument(fmt::format("null data for a tensor of shape {} with {} elements",
                                      layout::text(shape), elements));
  }
  Tensor tensor;
  tensor.storage_ = std::shared_ptr<void>(std::move(owner), defined_marker());
  tensor.data_ = data;
  tensor.shape_ = std::move(shape);
  tensor.strides_ = std::move(strides);
  tensor.elements_ = elements;
  tensor.dtype_ = dtype;
  tensor.contiguous_ = layout::is_row_major(tensor.shape_, tensor.strides_);
  return tensor;
}

Tensor Tensor::copy_of(const void* values, std::size_t count, Shape shape, DType dtype) {
  Tensor tensor = empty(std::move(shape), dtype);
  if (tensor.elements_ != count) {
    throw InvalidArgument(fmt::format("{} values for shape {}, which holds {} elements", count,
                                      layout::text(tensor.shape_), tensor.elements_));
  }
  unpack(values, tensor);
  return tensor;
}

Tensor Tensor::clone() const {
  require_defined(*this, "clone");
  Tensor copy = empty(shape_, dtype_);
  pack(*this, copy.data_);
  return copy;
}

Tensor Tensor::contiguous() const { return contiguous_ && defined() ? *this : clone(); }

void Tensor::copy_from(const Tensor& source) const {
  require_defined(*this, "copy_from into");
  require_defined(source, "copy_from");
  if (shape_ != source.shape_ || dtype_ != source.dtype_) {
    throw InvalidArgument(fmt::format(
        "copy_from a tensor of shape {} {} into one of shape {} {}; both must be equal",
        layout::text(source.shape_), name(source.dtype_), layout::text(shape_), name(dtype_)));
  }
  if (overlaps_itself()) {
    throw InvalidArgument(fmt::format(
        "copy_from into a tensor whose elements overlap, shape {} strides {}; pass its clone()",
        layout::text(shape_), layout::text(strides_)));
  }
  if (same_layout(*this, source)) {
    return;
  }
  if (shares_memory(source)) {
    copy_elements(source.clone(), *this);
  } else {
    copy_elements(source, *this);
  }
}

void Tensor::fill(std::complex<double> value) const {
  require_defined(*this, "fill");
  std::array<std::byte, sizeof(std::complex<double>)> element;
  scalar::write(dtype_, element.data(), value);
  fill_elements(element.data(), *this);
}

void* Tensor::element_address(std::span<const std::int64_t> index, DType expected) const {
  require_defined(*this, "an element");
  if (expected != dtype_) {
    throw InvalidArgument(
        fmt::format("element of a {} tensor asked for as {}", name(dtype_), name(expected)));
  }
  bool inside = index.size() == shape_.size();
  std::int64_t offset = 0;
  for (std::size_t d = 0; inside && d < shape_.size(); ++d) {
    inside = index[d] >= 0 && index[d] < shape_[d];
    offset += inside ? index[d] * strides_[d] : 0;
  }
  if (!inside) {
    throw InvalidArgument(fmt::format("no element at index {} of a tensor of shape {}",
                                      layout::text(Shape(index.begin(), index.end())),
                                      layout::text(shape_)));
  }
  return data_as<std::byte>() + offset * static_cast<std::int64_t>(element_bytes(dtype_));
}

double Tensor::item() const { return item_as_complex().real(); }

std::complex<double> Tensor::item_as_complex() const {
  require_defined(*this, "item");
  if (elements_ != 1) {
    throw InvalidArgument(fmt::format("item of a tensor with {} elements, shape {}; it must have 1",
                                      elements_, layout::text(shape_)));
  }
  return element(0);
}

std::complex<double> Tensor::element(std::size_t i) const {
  return scalar::read(dtype_, address(*this, i));
}

void Tensor::set_element(std::size_t i, std::complex<double> value) const {
  scalar::write(dtype_, address(*this, i), value);
}

std::vector<double> Tensor::to_vector() const {
  std::vector<double> values(elements_);
  if (elements_ == 0) {
    return values;
  }
  const Tensor packed = contiguous();
  const auto* source = packed.data_as<std::byte>();
  for (double& value : values) {
    value = scalar::read(dtype_, source).real();
    source += element_bytes(dtype_);
  }
  return values;
}

bool Tensor::identical(const Tensor& other) const {
  if (defined() != other.defined() || dtype_ != other.dtype_ || shape_ != other.shape_) {
    return false;
  }
  if (elements_ == 0) {
    return true;
  }
  return std::memcmp(contiguous().data_, other.contiguous().data_, bytes()) == 0;
}

}  // namespace tutti
