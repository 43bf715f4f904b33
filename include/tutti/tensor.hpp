// A small refcounted strided tensor, made to be exchanged between libraries. It is no maths
// library: it allocates, views, copies, prints. Copying a Tensor copies the handle, never the
// elements.
#pragma once

#include <tutti/dtype.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace tutti {

enum class DeviceType : std::uint8_t { cpu, cuda, other };
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// Extents, in elements.
using Shape = std::vector<std::int64_t>;

/// Maps a C++ element type to its DType; specialised below for all plain types.
template <class T>
struct DTypeOf;

class Tensor {
 public:
  /// An undefined tensor; `defined()` is false.
  Tensor() = default;

  /// Uninitialised elements, 64-byte aligned, row major. Throws InvalidArgument for a negative
  /// extent, and for a size that does not fit memory.
  static Tensor empty(Shape shape, DType dtype = DType::f32);
  static Tensor zeros(Shape shape, DType dtype = DType::f32);
  /// Every element is `value`, converted as `fill` does.
  static Tensor full(Shape shape, std::complex<double> value, DType dtype = DType::f32);
  /// start, start + step, ... `count` elements.
  static Tensor arange(std::int64_t count, DType dtype = DType::f32, double start = 0,
                       double step = 1);
  /// A view of memory the caller owns. `strides` in elements; empty: row major. `owner`, if given,
  /// is released with the last view.
  static Tensor from_blob(void* data, Shape shape, DType dtype, Shape strides = {},
                          std::shared_ptr<void> owner = {});
  /// A new row-major tensor holding `values`; `shape` defaults to one dimension. Throws
  /// InvalidArgument if `shape` holds another number of elements.
  template <class T>
  static Tensor of(std::span<const T> values, Shape shape = {});
  template <class T>
  static Tensor of(std::initializer_list<T> values, Shape shape = {}) {
    return of(std::span<const T>(values.begin(), values.size()), std::move(shape));
  }

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  std::int64_t dim() const { return static_cast<std::int64_t>(shape_.size()); }
  /// Extent of dimension `d`; negative counts from the end.
  std::int64_t size(std::int64_t d) const;
  /// Number of elements.
  std::size_t elements() const { return elements_; }
  /// elements() * element size: what travels, not what the strides span.
  std::size_t bytes() const { return elements_ * element_bytes(dtype_); }
  void* data() const { return data_; }
  template <class T>
  T* data_as() const {
    return static_cast<T*>(data_);
  }
  /// Row major without gaps.
  bool is_contiguous() const { return contiguous_; }
  /// Whether two indices can address the same memory (an expanded tensor); such a tensor cannot be
  /// an output.
  bool overlaps_itself() const;
  /// Whether the memory spanned by both may intersect.
  bool shares_memory(const Tensor& other) const;

  /// Same elements, other shape, no copy; one extent may be -1. Throws InvalidArgument if the
  /// strides do not allow it.
  Tensor view(Shape shape) const;
  /// As view, copying where a view is impossible.
  Tensor reshape(Shape shape) const;
  /// Elements start, start + step, ... before stop along `d`. Counts from the end and clamps as
  /// Python does; `step` may be negative, not 0.
  Tensor slice(std::int64_t d, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  /// Drops dimension `d`, at `index`.
  Tensor select(std::int64_t d, std::int64_t index) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  /// Extents of 1 are repeated without copying; -1 keeps an extent, and `shape` may have more
  /// dimensions in front.
  Tensor expand(Shape shape) const;
  Tensor clone() const;
  /// This tensor if it is contiguous, else a row-major copy.
  Tensor contiguous() const;
  /// Copies elements of equal shape and dtype through both tensors' strides; the two may overlap.
  void copy_from(const Tensor& source) const;
  /// Converts `value` to the element type: integers truncate and wrap, bool is `value != 0`, real
  /// types take the real part.
  void fill(std::complex<double> value) const;

  /// Element at a full index, as T. Throws InvalidArgument unless T is the element type.
  template <class T>
  T& at(std::initializer_list<std::int64_t> index) const;
  /// The only element, converted. Throws InvalidArgument if there are more or fewer.
  double item() const;
  std::complex<double> item_as_complex() const;
  /// Element number `i` in row-major order, converted.
  std::complex<double> element(std::size_t i) const;
  void set_element(std::size_t i, std::complex<double> value) const;
  /// All elements in row-major order, converted to double (the real part).
  std::vector<double> to_vector() const;
  /// Equal dtype, shape and bytes of every element.
  bool identical(const Tensor& other) const;
  /// "tensor([[1, 2], [3, 4]], dtype=float32)", long ones abridged.
  std::string to_string() const;

 private:
  static Tensor copy_of(const void* values, std::size_t count, Shape shape, DType dtype);
  void* element_address(std::span<const std::int64_t> index, DType expected) const;
  Tensor with_layout(Shape shape, Shape strides, std::byte* data) const;

  std::shared_ptr<void> storage_{};
  void* data_ = nullptr;
  Shape shape_{};
  Shape strides_{};
  std::size_t elements_ = 0;
  DType dtype_ = DType::f32;
  Device device_{};
  bool contiguous_ = true;
};

template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::complex64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::complex128;
};

template <class T>
Tensor Tensor::of(std::span<const T> values, Shape shape) {
  if (shape.empty()) {
    shape.push_back(static_cast<std::int64_t>(values.size()));
  }
  return copy_of(values.data(), values.size(), std::move(shape), DTypeOf<T>::value);
}

template <class T>
T& Tensor::at(std::initializer_list<std::int64_t> index) const {
  return *static_cast<T*>(
      element_address(std::span(index.begin(), index.size()), DTypeOf<T>::value));
}

}  // namespace tutti
#pragma GCC visibility pop
