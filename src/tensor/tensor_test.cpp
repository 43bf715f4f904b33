#include "base/limits.hpp"

#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Lets a refused allocation return null under the sanitizers too, as it does without them. Visible,
// because the sanitizer's library looks the name up.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace tutti {
namespace {

/// The text of the InvalidArgument that `act` throws.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Tensor, IsUndefinedByDefault) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_EQ(tensor.elements(), 0U);
  EXPECT_EQ(tensor.bytes(), 0U);
  EXPECT_TRUE(tensor.to_vector().empty());
  EXPECT_TRUE(tensor.identical(Tensor()));
  EXPECT_FALSE(tensor.identical(Tensor::empty({0})));
  EXPECT_EQ(refusal([&] { (void)tensor.clone(); }),
            "clone of an undefined tensor; make it with empty, zeros, full, of or from_blob");
  EXPECT_THROW(tensor.fill(1), InvalidArgument);
  EXPECT_THROW((void)tensor.contiguous(), InvalidArgument);
  EXPECT_THROW((void)tensor.item(), InvalidArgument);
  EXPECT_THROW((void)tensor.element(0), InvalidArgument);
  EXPECT_THROW((void)tensor.at<float>({}), InvalidArgument);
}

TEST(Tensor, AllocatesAlignedRowMajorMemoryForEveryDtype) {
  for (const DTypeInfo& row : kDTypes) {
    const Tensor tensor = Tensor::zeros({3, 5}, row.dtype);
    EXPECT_TRUE(tensor.defined());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    EXPECT_EQ(tensor.elements(), 15U);
    EXPECT_EQ(tensor.bytes(), 15 * row.bytes);
    EXPECT_EQ(tensor.strides(), (Shape{5, 1}));
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.to_vector(), std::vector<double>(15)) << row.name;
  }
}

TEST(Tensor, CopiesTheHandleNotTheElements) {
  const Tensor tensor = Tensor::zeros({2});
  const Tensor other = tensor;
  other.set_element(0, 7);
  EXPECT_EQ(tensor.element(0), 7.0);
  const Tensor copy = tensor.clone();
  copy.set_element(0, 1);
  EXPECT_EQ(tensor.element(0), 7.0);
}

TEST(Tensor, RefusesShapesWithTheirNumbers) {
  EXPECT_EQ(refusal([] { Tensor::empty({2, -3}); }), "shape [2, -3] has the negative extent -3");
  EXPECT_EQ(refusal([] { Tensor::empty(Shape(65, 1)); }),
            "shape has 65 dimensions, at most 64 are possible");
  EXPECT_EQ(refusal([] {
              Tensor::empty({1L << 40, 1L << 40});
            }),
            "shape [1099511627776, 1099511627776] of float32 (4 bytes each) needs more than "
            "72057594037927936 bytes, the largest tensor");
  EXPECT_THROW(Tensor::empty({INT64_MAX, INT64_MAX, INT64_MAX}), InvalidArgument);
  EXPECT_THROW(Tensor::empty({0, INT64_MAX, INT64_MAX}), InvalidArgument);
  EXPECT_THROW(Tensor::arange(-1), InvalidArgument);
}

TEST(Tensor, RefusesWhatCannotBeAllocated) {
  EXPECT_EQ(refusal([] { Tensor::empty({1L << 50}, DType::u8); }),
            "shape [1125899906842624] of uint8 needs 1125899906842624 bytes, which cannot be "
            "allocated");
}

TEST(Tensor, LargestBytesAreAllowedToTheByte) {
  std::byte one{};
  const auto limit = static_cast<std::int64_t>(limits::kMaxTensorBytes);
  EXPECT_EQ(Tensor::from_blob(&one, {limit}, DType::u8, {0}).bytes(), limits::kMaxTensorBytes);
  EXPECT_THROW(Tensor::from_blob(&one, {limit + 1}, DType::u8, {0}), InvalidArgument);
}

TEST(Tensor, ZeroElementsAreATensor) {
  const Tensor tensor = Tensor::empty({2, 0, 3});
  EXPECT_TRUE(tensor.defined());
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.elements(), 0U);
  EXPECT_TRUE(tensor.clone().identical(tensor));
  tensor.fill(1);
  tensor.copy_from(tensor.clone());
  EXPECT_FALSE(tensor.overlaps_itself());
  EXPECT_THROW((void)tensor.element(0), InvalidArgument);
}

TEST(Tensor, ZeroDimensionsAreOneElement) {
  const Tensor tensor = Tensor::full({}, 3, DType::i16);
  EXPECT_EQ(tensor.dim(), 0);
  EXPECT_EQ(tensor.elements(), 1U);
  EXPECT_EQ(tensor.item(), 3);
  EXPECT_EQ(tensor.at<std::int16_t>({}), 3);
  EXPECT_TRUE(tensor.is_contiguous());
}

TEST(TensorOf, HoldsItsValuesInOneDimensionByDefault) {
  EXPECT_EQ(Tensor::of({1.5, 2.5}).shape(), (Shape{2}));
  EXPECT_EQ(Tensor::of({1.5, 2.5}).dtype(), DType::f64);
  EXPECT_EQ(Tensor::of({true, false}).to_vector(), (std::vector<double>{1, 0}));
  EXPECT_EQ(Tensor::of({1, 2, 3, 4}, {2, 2}).at<std::int32_t>({1, 0}), 3);
  EXPECT_EQ(Tensor::of(std::span<const float>{}).elements(), 0U);
}

TEST(TensorOf, RefusesAShapeOfAnotherCount) {
  EXPECT_EQ(refusal([] {
              Tensor::of({1, 2, 3}, {2, 2});
            }),
            "3 values for shape [2, 2], which holds 4 elements");
}

TEST(TensorArange, CountsInEveryDtype) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.dtype != DType::boolean) {
      EXPECT_EQ(Tensor::arange(4, row.dtype, 1, 2).to_vector(), (std::vector<double>{1, 3, 5, 7}))
          << row.name;
    }
  }
  EXPECT_EQ(Tensor::arange(3, DType::boolean).to_vector(), (std::vector<double>{0, 1, 1}));
}

TEST(TensorFill, ReachesEveryIndexOfAnyLayoutInEveryDtype) {
  for (const DTypeInfo& row : kDTypes) {
    const Tensor whole = Tensor::zeros({4, 6}, row.dtype);
    whole.slice(1, 5, 0, -2).transpose(0, 1).fill(1);
    EXPECT_EQ(whole.select(0, 3).to_vector(), (std::vector<double>{0, 1, 0, 1, 0, 1})) << row.name;
  }
  const Tensor repeated = Tensor::zeros({1}).expand({3});
  repeated.fill(2);
  EXPECT_EQ(repeated.to_vector(), (std::vector<double>{2, 2, 2}));
}

TEST(TensorFromBlob, ReleasesItsOwnerWithTheLastView) {
  auto owner = std::make_shared<std::vector<float>>(6, 1.0F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  float* data = owner->data();
  Tensor tensor = Tensor::from_blob(data, {2, 3}, DType::f32, {}, std::move(owner));
  Tensor view = tensor.select(0, 1).slice(0, 1, 3);
  tensor = Tensor();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(view.data(), data + 4);
  view = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(TensorFromBlob, ChecksStridesAndData) {
  float value = 0;
  EXPECT_EQ(refusal([&] {
              Tensor::from_blob(&value, {1, 1}, DType::f32, {1});
            }),
            "1 strides [1] for the 2 dimensions of shape [1, 1]; pass one per dimension, or none "
            "for row major");
  EXPECT_EQ(refusal([] { Tensor::from_blob(nullptr, {2}, DType::f32); }),
            "null data for a tensor of shape [2] with 2 elements");
  EXPECT_THROW(Tensor::from_blob(&value, {2}, DType::f32, {INT64_MIN}), InvalidArgument);
  EXPECT_THROW(Tensor::from_blob(&value, {2, 2, 2}, DType::u8, {1L << 55, 1L << 55, 1}),
               InvalidArgument);
  EXPECT_TRUE(Tensor::from_blob(nullptr, {0}, DType::f32).defined());
  // The stride of an extent of 1 is never used.
  EXPECT_TRUE(Tensor::from_blob(&value, {1}, DType::f32, {INT64_MIN}).is_contiguous());
}

TEST(TensorAt, ChecksTypeAndIndex) {
  const Tensor tensor = Tensor::arange(6).view({2, 3}).transpose(0, 1);
  EXPECT_EQ(tensor.at<float>({2, 1}), 5);
  tensor.at<float>({2, 1}) = 9;
  EXPECT_EQ(tensor.element(5), 9.0);
  EXPECT_EQ(refusal([&] {
              tensor.at<double>({0, 0});
            }),
            "element of a float32 tensor asked for as float64");
  EXPECT_EQ(refusal([&] {
              tensor.at<float>({0, 2});
            }),
            "no element at index [0, 2] of a tensor of shape [3, 2]");
  EXPECT_THROW(tensor.at<float>({0, -1}), InvalidArgument);
  EXPECT_THROW(tensor.at<float>({0}), InvalidArgument);
}

TEST(TensorElement, CountsInRowMajorOrderWhateverTheStrides) {
  const Tensor tensor = Tensor::arange(6, DType::i64).view({2, 3}).transpose(0, 1);
  EXPECT_EQ(tensor.element(1), 3.0);
  tensor.set_element(1, -1);
  EXPECT_EQ(tensor.to_vector(), (std::vector<double>{0, -1, 1, 4, 2, 5}));
  EXPECT_EQ(refusal([&] { (void)tensor.element(6); }),
            "element 6 of a tensor with 6 elements, shape [3, 2]");
}

TEST(TensorItem, NeedsExactlyOneElement) {
  EXPECT_EQ(Tensor::full({1, 1}, {1, 2}, DType::complex64).item_as_complex(),
            (std::complex<double>{1, 2}));
  EXPECT_EQ(refusal([] { (void)Tensor::zeros({2}).item(); }),
            "item of a tensor with 2 elements, shape [2]; it must have 1");
}

TEST(TensorCopyFrom, TakesOverlappingSourceAndTarget) {
  const Tensor line = Tensor::arange(6);
  line.slice(0, 1, 6).copy_from(line.slice(0, 0, 5));
  EXPECT_EQ(line.to_vector(), (std::vector<double>{0, 0, 1, 2, 3, 4}));
  const Tensor square = Tensor::arange(9).view({3, 3});
  square.copy_from(square.transpose(0, 1));
  EXPECT_EQ(square.to_vector(), (std::vector<double>{0, 3, 6, 1, 4, 7, 2, 5, 8}));
  square.copy_from(square);
  EXPECT_EQ(square.element(1), 3.0);
}

TEST(TensorCopyFrom, RefusesOtherShapesDtypesAndExpandedTargets) {
  const Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_EQ(refusal([&] {
              tensor.copy_from(Tensor::zeros({3, 2}, DType::f64));
            }),
            "copy_from a tensor of shape [3, 2] float64 into one of shape [2, 3] float32; both "
            "must be equal");
  EXPECT_EQ(refusal([&] {
              Tensor::zeros({1, 3}).expand({2, 3}).copy_from(tensor);
            }),
            "copy_from into a tensor whose elements overlap, shape [2, 3] strides [0, 1]; pass its "
            "clone()");
}

TEST(TensorIdentical, ComparesBytesThroughAnyStrides) {
  const Tensor tensor = Tensor::arange(6).view({2, 3});
  EXPECT_TRUE(tensor.transpose(0, 1).clone().transpose(0, 1).identical(tensor));
  EXPECT_FALSE(tensor.identical(tensor.view({3, 2})));
  EXPECT_FALSE(tensor.identical(Tensor::arange(6, DType::f64).view({2, 3})));
  EXPECT_FALSE(Tensor::full({1}, 0.0).identical(Tensor::full({1}, -0.0)));
  const Tensor nan = Tensor::full({1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(nan.identical(nan.clone()));
}

TEST(TensorContiguous, CopiesOnlyWhatIsNot) {
  const Tensor tensor = Tensor::arange(6).view({2, 3});
  EXPECT_EQ(tensor.contiguous().data(), tensor.data());
  const Tensor packed = tensor.transpose(0, 1).contiguous();
  EXPECT_NE(packed.data(), tensor.data());
  EXPECT_EQ(packed.strides(), (Shape{2, 1}));
  EXPECT_TRUE(packed.identical(tensor.transpose(0, 1)));
}

}  // namespace
}  // namespace tutti
