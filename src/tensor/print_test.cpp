#include <tutti/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace tutti {
namespace {

TEST(ToString, PrintsShortTensorsOnOneLine) {
  EXPECT_EQ(Tensor::of({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2}).to_string(),
            "tensor([[1, 2], [3, 4]], dtype=float32)");
  EXPECT_EQ(Tensor::zeros({}).to_string(), "tensor(0, dtype=float32)");
  EXPECT_EQ(Tensor::of({true, false}).to_string(), "tensor([True, False], dtype=bool)");
  EXPECT_EQ(Tensor::full({2}, {1, -2}, DType::complex64).to_string(),
            "tensor([1-2j, 1-2j], dtype=complex64)");
  EXPECT_EQ(Tensor::full({2}, 0.1, DType::f16).to_string(), "tensor([0.1, 0.1], dtype=float16)");
  EXPECT_EQ(Tensor::of({INT64_MAX, INT64_MIN}).to_string(),
            "tensor([9223372036854775807, -9223372036854775808], dtype=int64)");
}

TEST(ToString, NamesTheShapeWhereThereIsNoElement) {
  EXPECT_EQ(Tensor::empty({0, 3}, DType::u8).to_string(), "tensor([], shape=[0, 3], dtype=uint8)");
  EXPECT_EQ(Tensor().to_string(), "tensor(undefined)");
}

TEST(ToString, PutsRowsOnLinesOfTheirOwnAndAlignsColumns) {
  EXPECT_EQ(Tensor::arange(20, DType::i32, 0, 1000).view({2, 10}).to_string(),
            "tensor([[    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000],\n"
            "        [10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000]], "
            "dtype=int32)");
}

TEST(ToString, SeparatesMatricesByABlankLine) {
  EXPECT_EQ(Tensor::arange(24, DType::i64, 100).view({2, 2, 6}).to_string(),
            "tensor([[[100, 101, 102, 103, 104, 105],\n"
            "         [106, 107, 108, 109, 110, 111]],\n"
            "\n"
            "        [[112, 113, 114, 115, 116, 117],\n"
            "         [118, 119, 120, 121, 122, 123]]], dtype=int64)");
}

TEST(ToString, FollowsStrides) {
  EXPECT_EQ(Tensor::arange(6, DType::u8).view({2, 3}).transpose(0, 1).to_string(),
            "tensor([[0, 3], [1, 4], [2, 5]], dtype=uint8)");
  EXPECT_EQ(Tensor::arange(3, DType::u8).slice(0, 2, -4, -1).to_string(),
            "tensor([2, 1, 0], dtype=uint8)");
}

TEST(ToString, AbridgesOverAThousandElements) {
  EXPECT_EQ(Tensor::arange(1001).to_string(),
            "tensor([0, 1, 2, ..., 998, 999, 1000], shape=[1001], dtype=float32)");
  EXPECT_EQ(Tensor::arange(1000).to_string().find("..."), std::string::npos);
  EXPECT_EQ(Tensor::arange(4000, DType::i32).view({2, 2000}).to_string(),
            "tensor([[0, 1, 2, ..., 1997, 1998, 1999], [2000, 2001, 2002, ..., 3997, 3998, 3999]], "
            "shape=[2, 2000], dtype=int32)");
}

TEST(ToString, StaysShortForManyDimensions) {
  const std::string text = Tensor::zeros(Shape(20, 2), DType::u8).to_string();
  EXPECT_EQ(text.substr(0, 25), "tensor(..., shape=[2, 2, ");
  EXPECT_LT(Tensor::zeros(Shape(7, 7), DType::u8).to_string().size(), 4000U);
}

TEST(ToString, WrapsLongRows) {
  const std::string text = Tensor::arange(100, DType::i32).to_string();
  EXPECT_NE(text.find(",\n        19, 20,"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti
