// Packing and unpacking against a loop over single elements, for random layouts of every dtype.
// Buffers are compared whole, so that a byte written between the elements shows.
#include "tensor/pack.hpp"

#include "tensor/random_layout.hpp"

#include <tutti/tensor.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::Layout;

constexpr std::uint64_t kSeeds = 3000;

DType dtype_of(std::uint64_t seed) { return kDTypes[seed % kDTypeCount].dtype; }

/// A layout over its own buffer, which starts at an odd address for every other seed.
struct Placed {
  Placed(Layout where, DType type, std::uint64_t seed, Rng& rng)
      : layout(std::move(where)), dtype(type), shift(seed / kDTypeCount % 2) {
    buffer = testing::random_bytes(
        rng, shift + static_cast<std::size_t>(layout.span) * element_bytes(dtype));
  }
  std::byte* at(std::vector<std::byte>& bytes, std::int64_t i) const {
    return bytes.data() + shift + static_cast<std::size_t>(i) * element_bytes(dtype);
  }
  Tensor tensor() {
    return Tensor::from_blob(at(buffer, layout.first), layout.shape, dtype, layout.strides);
  }
  Layout layout;
  DType dtype;
  std::size_t shift;
  std::vector<std::byte> buffer{};
};

std::string describe(const Tensor& tensor, std::uint64_t seed) {
  std::string text = "seed " + std::to_string(seed) + " shape/stride";
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    text += ' ' + std::to_string(tensor.shape()[d]) + '/' + std::to_string(tensor.strides()[d]);
  }
  return text;
}

TEST(Pack, EqualsElementByElementForRandomLayouts) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    Placed source(testing::random_source(rng, testing::random_shape(rng)), dtype_of(seed), seed,
                  rng);
    const Tensor tensor = source.tensor();
    const std::size_t bytes = element_bytes(source.dtype);
    std::vector<std::byte> expected(tensor.bytes() + 1, std::byte{0x5a});
    std::vector<std::byte> actual = expected;
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const auto from = testing::offset(source.layout, static_cast<std::int64_t>(i));
      std::memcpy(expected.data() + i * bytes, source.at(source.buffer, from), bytes);
    }
    pack(tensor, actual.data());
    ASSERT_EQ(actual, expected) << describe(tensor, seed);
  }
}

TEST(Unpack, EqualsElementByElementAndTouchesNothingElse) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    Placed target(testing::random_layout(rng, testing::random_shape(rng)), dtype_of(seed), seed,
                  rng);
    const Tensor tensor = target.tensor();
    const std::size_t bytes = element_bytes(target.dtype);
    const std::vector<std::byte> packed = testing::random_bytes(rng, tensor.bytes());
    std::vector<std::byte> expected = target.buffer;
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const auto to = testing::offset(target.layout, static_cast<std::int64_t>(i));
      std::memcpy(target.at(expected, to), packed.data() + i * bytes, bytes);
    }
    unpack(packed.data(), tensor);
    ASSERT_EQ(target.buffer, expected) << describe(tensor, seed);
  }
}

TEST(CopyFrom, EqualsElementByElementBetweenRandomLayouts) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    const Shape shape = testing::random_shape(rng);
    Placed source(testing::random_source(rng, shape), dtype_of(seed), seed, rng);
    Placed target(testing::random_layout(rng, shape), dtype_of(seed), seed, rng);
    const Tensor tensor = target.tensor();
    const std::size_t bytes = element_bytes(source.dtype);
    std::vector<std::byte> expected = target.buffer;
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      std::memcpy(target.at(expected, testing::offset(target.layout, index)),
                  source.at(source.buffer, testing::offset(source.layout, index)), bytes);
    }
    tensor.copy_from(source.tensor());
    ASSERT_EQ(target.buffer, expected) << describe(tensor, seed);
    ASSERT_TRUE(tensor.identical(source.tensor())) << describe(tensor, seed);
  }
}

TEST(Pack, TakesLargeTransposedTensorsThroughTiles) {
  const Tensor tensor = Tensor::arange(70 * 3 * 90, DType::i32).view({70, 3, 90}).transpose(0, 2);
  std::vector<std::int32_t> packed(tensor.elements());
  pack(tensor, packed.data());
  for (std::size_t i = 0; i < packed.size(); ++i) {
    ASSERT_EQ(packed[i], tensor.element(i).real()) << i;
  }
}

TEST(Pack, TakesSixtyFourDimensions) {
  Shape shape(64, 1);
  shape[0] = 2;
  shape[31] = 3;
  shape[63] = 2;
  const Tensor tensor = Tensor::arange(12, DType::u8).view(shape).transpose(0, 63);
  EXPECT_EQ(tensor.to_vector(), (std::vector<double>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(Pack, LeavesTargetAloneForZeroElements) {
  pack(Tensor::empty({3, 0}), nullptr);
  pack(Tensor::empty({3, 0, 2}).transpose(0, 2), nullptr);
  unpack(nullptr, Tensor::empty({0}));
}

TEST(Pack, CopiesOneElementOfAZeroDimensionalTensor) {
  double value = 0;
  pack(Tensor::full({}, 2.5, DType::f64), &value);
  EXPECT_EQ(value, 2.5);
  const Tensor target = Tensor::zeros({}, DType::f64);
  unpack(&value, target);
  EXPECT_EQ(target.item(), 2.5);
}

}  // namespace
}  // namespace tutti
