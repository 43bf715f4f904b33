#include "tensor/layout.hpp"
#include "tensor/random_layout.hpp"

#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tutti {
namespace {

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::vector<double> numbers(std::initializer_list<double> list) { return list; }

TEST(View, SharesMemoryAndInfersOneExtent) {
  const Tensor tensor = Tensor::arange(12);
  const Tensor view = tensor.view({3, -1});
  EXPECT_EQ(view.shape(), (Shape{3, 4}));
  EXPECT_EQ(view.data(), tensor.data());
  EXPECT_EQ(tensor.view({1, 12, 1}).strides(), (Shape{12, 1, 1}));
  EXPECT_EQ(Tensor::zeros({1}).view({}).dim(), 0);
  EXPECT_EQ(Tensor::zeros({}).view({1, 1}).dim(), 2);
  EXPECT_EQ(Tensor::zeros({0, 4}).view({2, -1}).shape(), (Shape{2, 0}));
}

TEST(View, WorksOnStridesWhereverTheyAllowIt) {
  const Tensor columns = Tensor::arange(24).view({4, 6}).slice(1, 0, 6, 2);  // strides 6, 2
  EXPECT_EQ(columns.view({2, 2, 3}).strides(), (Shape{12, 6, 2}));
  EXPECT_EQ(columns.view({12}).strides(), (Shape{2}));
  EXPECT_THROW((void)columns.transpose(0, 1).view({12}), InvalidArgument);
  EXPECT_EQ(Tensor::zeros({1, 3}).expand({2, 3}).view({2, 1, 3, 1}).shape(), (Shape{2, 1, 3, 1}));
}

TEST(View, RefusesWithBothShapes) {
  EXPECT_EQ(refusal([] { (void)Tensor::arange(6).view({4}); }),
            "view [4] holds 4 elements, the tensor of shape [6] holds 6");
  EXPECT_EQ(refusal([] {
              (void)Tensor::arange(6).view({-1, -1});
            }),
            "shape [-1, -1] leaves more than one extent open; one may be -1");
  EXPECT_EQ(refusal([] {
              (void)Tensor::arange(6).view({4, -1});
            }),
            "no extent in place of -1 makes shape [4, -1] hold 6 elements");
  EXPECT_THROW((void)Tensor::zeros({0}).view({0, -1}), InvalidArgument);
  EXPECT_THROW((void)Tensor::arange(6).view({-2, -3}), InvalidArgument);
  EXPECT_EQ(refusal([] {
              (void)Tensor::arange(6).view({2, 3}).transpose(0, 1).view({6});
            }),
            "no view of shape [6] over a tensor of shape [3, 2] with strides [1, 3]; use reshape, "
            "which copies");
  EXPECT_EQ(refusal([] { (void)Tensor().view({0}); }), "view of an undefined tensor");
}

/// A random factorisation of `elements`.
Shape random_factors(Rng& rng, std::int64_t elements) {
  Shape shape;
  while (elements > 1) {
    std::int64_t factor = 1 + testing::below(rng, elements);
    while (elements % factor != 0) {
      ++factor;
    }
    shape.push_back(factor);
    elements /= factor;
  }
  return shape;
}

TEST(View, KeepsTheElementsOfRandomLayouts) {
  int views = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const testing::Layout layout = testing::random_source(rng, testing::random_shape(rng));
    const Tensor buffer = Tensor::arange(layout.span, DType::i32);
    const Tensor tensor = Tensor::from_blob(buffer.data_as<std::int32_t>() + layout.first,
                                            layout.shape, DType::i32, layout.strides);
    if (tensor.elements() == 0) {
      continue;
    }
    const Shape shape = random_factors(rng, static_cast<std::int64_t>(tensor.elements()));
    const Tensor reshaped = tensor.reshape(shape);
    ASSERT_EQ(reshaped.shape(), shape);
    ASSERT_EQ(reshaped.to_vector(), tensor.to_vector()) << "seed " << seed;
    const bool is_view = reshaped.shares_memory(tensor);
    ASSERT_EQ(is_view, layout::view_strides(layout.shape, layout.strides, shape).has_value());
    views += is_view && !tensor.is_contiguous() ? 1 : 0;
  }
  EXPECT_GT(views, 50);
}

TEST(Reshape, CopiesOnlyWhereAViewIsImpossible) {
  const Tensor tensor = Tensor::arange(6).view({2, 3});
  EXPECT_EQ(tensor.reshape({6}).data(), tensor.data());
  const Tensor copy = tensor.transpose(0, 1).reshape({6});
  EXPECT_FALSE(copy.shares_memory(tensor));
  EXPECT_EQ(copy.to_vector(), numbers({0, 3, 1, 4, 2, 5}));
}

/// What Python's list(range(extent))[start:stop:step] holds, one candidate at a time.
std::vector<double> python_slice(std::int64_t extent, std::int64_t start, std::int64_t stop,
                                 std::int64_t step) {
  start += start < 0 ? extent : 0;
  stop += stop < 0 ? extent : 0;
  std::vector<double> result;
  if (step > 0) {
    for (std::int64_t i = std::max<std::int64_t>(start, 0); i < std::min(stop, extent); i += step) {
      result.push_back(static_cast<double>(i));
    }
  } else {
    for (std::int64_t i = std::min(start, extent - 1); i > std::max<std::int64_t>(stop, -1);
         i += step) {
      result.push_back(static_cast<double>(i));
    }
  }
  return result;
}

TEST(Slice, ClampsAsPythonDoes) {
  for (std::int64_t extent = 0; extent < 5; ++extent) {
    const Tensor tensor = Tensor::arange(extent);
    for (std::int64_t start = -7; start < 8; ++start) {
      for (std::int64_t stop = -7; stop < 8; ++stop) {
        for (const std::int64_t step : {-7, -3, -2, -1, 1, 2, 3, 7}) {
          ASSERT_EQ(tensor.slice(0, start, stop, step).to_vector(),
                    python_slice(extent, start, stop, step))
              << extent << ": " << start << ' ' << stop << ' ' << step;
        }
      }
    }
  }
}

TEST(Slice, TakesTheLargestNumbers) {
  const Tensor tensor = Tensor::arange(5).view({1, 5});
  EXPECT_EQ(tensor.slice(1, INT64_MIN, INT64_MAX, INT64_MAX).to_vector(), numbers({0}));
  EXPECT_EQ(tensor.slice(1, INT64_MAX, INT64_MIN, INT64_MIN).to_vector(), numbers({4}));
  EXPECT_EQ(tensor.slice(-1, 3, INT64_MAX).to_vector(), numbers({3, 4}));
}

TEST(Slice, KeepsStorageAliveAndWritesThrough) {
  Tensor tensor = Tensor::zeros({4});
  const Tensor part = tensor.slice(0, 1, 3);
  part.fill(5);
  EXPECT_EQ(tensor.to_vector(), numbers({0, 5, 5, 0}));
  tensor = Tensor();
  EXPECT_EQ(part.to_vector(), numbers({5, 5}));
}

TEST(Slice, RefusesStepZeroAndUnknownDimensions) {
  EXPECT_EQ(refusal([] { (void)Tensor::arange(6).slice(0, 0, 6, 0); }),
            "slice of dimension 0 with step 0; it must be positive or negative");
  EXPECT_EQ(refusal([] {
              (void)Tensor::zeros({2, 3}).slice(2, 0, 1);
            }),
            "dimension 2 of a tensor with 2 dimensions; -2 to 1 are possible");
  EXPECT_EQ(refusal([] { (void)Tensor::zeros({}).slice(0, 0, 1); }),
            "dimension 0 of a tensor that has no dimensions");
}

TEST(Select, DropsADimension) {
  const Tensor tensor = Tensor::arange(6).view({2, 3});
  EXPECT_EQ(tensor.select(0, 1).to_vector(), numbers({3, 4, 5}));
  EXPECT_EQ(tensor.select(-1, -1).to_vector(), numbers({2, 5}));
  EXPECT_EQ(tensor.select(0, 1).select(0, 2).item(), 5);
  EXPECT_EQ(Tensor::zeros({3, 0}).select(0, 2).shape(), (Shape{0}));
  EXPECT_EQ(refusal([&] { (void)tensor.select(1, 3); }),
            "index 3 of dimension 1 with extent 3, shape [2, 3]");
}

TEST(Size, CountsFromBothEnds) {
  const Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_EQ(tensor.size(0), 2);
  EXPECT_EQ(tensor.size(-1), 3);
  EXPECT_THROW((void)tensor.size(2), InvalidArgument);
  EXPECT_THROW((void)tensor.size(-3), InvalidArgument);
}

TEST(Transpose, SwapsTwoDimensions) {
  const Tensor tensor = Tensor::arange(6).view({2, 3}).transpose(0, -1);
  EXPECT_EQ(tensor.shape(), (Shape{3, 2}));
  EXPECT_FALSE(tensor.is_contiguous());
  EXPECT_EQ(tensor.to_vector(), numbers({0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(Tensor::zeros({1, 3}).transpose(0, 1).is_contiguous());
}

TEST(Expand, RepeatsExtentsOfOneWithoutCopying) {
  const Tensor tensor = Tensor::of({1.0F, 2.0F}, {2, 1});
  const Tensor wide = tensor.expand({2, 2, 3});
  EXPECT_EQ(wide.data(), tensor.data());
  EXPECT_EQ(wide.to_vector(), numbers({1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(tensor.expand({-1, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor.expand({2, 0}).elements(), 0U);
  EXPECT_EQ(refusal([&] {
              (void)tensor.expand({3, 1});
            }),
            "expand of shape [2, 1] to [3, 1]: extent 2 cannot become 3; only 1 can grow");
  EXPECT_THROW((void)tensor.expand({2}), InvalidArgument);
  EXPECT_THROW((void)tensor.expand({-1, 2, 1}), InvalidArgument);
  EXPECT_THROW((void)tensor.expand({1L << 60, 2, 1}), InvalidArgument);
}

TEST(OverlapsItself, AgreesWithEveryIndexOfSmallLayouts) {
  int overlapping = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    testing::Layout layout;
    const std::int64_t dims = testing::below(rng, 5);
    for (std::int64_t d = 0; d < dims; ++d) {
      layout.shape.push_back(1 + testing::below(rng, 4));
      layout.strides.push_back(testing::below(rng, 81) - 40);
    }
    std::set<std::int64_t> offsets;
    std::int64_t elements = 1;
    for (const std::int64_t extent : layout.shape) {
      elements *= extent;
    }
    for (std::int64_t i = 0; i < elements; ++i) {
      offsets.insert(testing::offset(layout, i));
    }
    const bool expected = static_cast<std::int64_t>(offsets.size()) != elements;
    ASSERT_EQ(layout::overlaps_itself(layout.shape, layout.strides), expected) << "seed " << seed;
    overlapping += expected ? 1 : 0;
  }
  EXPECT_GT(overlapping, 1000);
}

TEST(OverlapsItself, DecidesLargeLayoutsQuickly) {
  const std::int64_t large = 1L << 20;
  EXPECT_FALSE(layout::overlaps_itself({large, large}, {1, large}));
  EXPECT_FALSE(layout::overlaps_itself({large, large}, {-1, -large}));
  EXPECT_TRUE(layout::overlaps_itself({large, large}, {1, large - 1}));
  EXPECT_TRUE(layout::overlaps_itself({large, 2}, {2, large}));
  EXPECT_FALSE(layout::overlaps_itself({large, 2}, {2, large + 1}));
  EXPECT_TRUE(layout::overlaps_itself({large, 2}, {1, 0}));
}

TEST(SharesMemory, ComparesTheBytesSpanned) {
  const Tensor tensor = Tensor::arange(10);
  EXPECT_TRUE(tensor.shares_memory(tensor));
  EXPECT_FALSE(tensor.slice(0, 0, 5).shares_memory(tensor.slice(0, 5, 10)));
  EXPECT_TRUE(tensor.slice(0, 0, 6).shares_memory(tensor.slice(0, 5, 10)));
  EXPECT_TRUE(tensor.slice(0, 9, 4, -1).shares_memory(tensor.slice(0, 5, 6)));
  EXPECT_FALSE(tensor.slice(0, 9, 4, -1).shares_memory(tensor.slice(0, 0, 5)));
  EXPECT_FALSE(tensor.slice(0, 3, 3).shares_memory(tensor));
  EXPECT_FALSE(tensor.shares_memory(Tensor()));
  EXPECT_FALSE(tensor.shares_memory(tensor.clone()));
}

}  // namespace
}  // namespace tutti
