// Every (element type, reduce op) against the scalar reference, bit by bit, under every instruction
// set: numbers of sources, lengths around vector widths, alignments, aliases.
#include "kernels/reduce.hpp"

#include "base/rng.hpp"
#include "kernels/every_target.hpp"
#include "kernels/reference.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

using reference::Bytes;

constexpr std::array kCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 17};
// In elements; the longest is past four of the widest vectors of bytes.
constexpr std::array<std::size_t, 26> kLengths{0,  1,  2,  3,  4,   5,   7,   8,  9,
                                               15, 16, 17, 24, 31,  32,  33,  47, 63,
                                               64, 65, 66, 96, 127, 129, 255, 335};
constexpr std::size_t kLongest = 335;
constexpr std::size_t kGuard = kStreamAlignment;
constexpr unsigned char kUntouched = 0xa5;

template <typename T>
T some_float(Rng& rng) {
  const std::array<T, 10> special{std::numeric_limits<T>::infinity(),
                                  -std::numeric_limits<T>::infinity(),
                                  std::numeric_limits<T>::quiet_NaN(),
                                  -std::numeric_limits<T>::quiet_NaN(),
                                  std::numeric_limits<T>::denorm_min() * 5,
                                  -std::numeric_limits<T>::denorm_min(),
                                  std::numeric_limits<T>::max(),
                                  std::numeric_limits<T>::lowest(),
                                  T{0},
                                  -T{0}};
  if (rng.below(6) == 0) {
    return special[rng.below(special.size())];
  }
  const auto magnitude = static_cast<int>(rng.below(20)) - 10;
  return static_cast<T>(std::ldexp(rng.uniform() * 2 - 1, magnitude));
}

template <typename T>
void fill_floats(Bytes& bytes, Rng& rng) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    reference::set_element<T>(bytes, i, some_float<T>(rng));
  }
}

/// Random bits for integers, bools (any byte) and narrow floats, whose codes are then all met;
/// numbers of like size and special values for the others.
Bytes some_elements(DType dtype, std::size_t elements, Rng& rng) {
  Bytes bytes(elements * element_bytes(dtype));
  switch (dtype) {
    case DType::f32:
    case DType::complex64:
      fill_floats<float>(bytes, rng);
      break;
    case DType::f64:
    case DType::complex128:
      fill_floats<double>(bytes, rng);
      break;
    default:
      for (unsigned char& byte : bytes) {
        byte = static_cast<unsigned char>(rng.next() >> 40);
      }
  }
  if (dtype == DType::boolean) {
    for (std::size_t i = 0; i < bytes.size(); i += 1 + rng.below(2)) {
      bytes[i] = 0;
    }
  }
  return bytes;
}

struct Problem {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::vector<Bytes> sources{};
  int divisor = 3;
  std::vector<std::complex<double>> factors{};
  Bytes expected{};
};

Problem some_problem(DType dtype, ReduceOp op, int count, Rng& rng) {
  Problem problem{.dtype = dtype, .op = op, .divisor = count + 1};
  for (int k = 0; k < count; ++k) {
    problem.sources.push_back(some_elements(dtype, kLongest, rng));
    const double imaginary = rng.below(2) == 0 ? 0.0 : rng.uniform() - 0.5;
    problem.factors.emplace_back(rng.uniform() * 3 - 1, imaginary);
  }
  problem.expected = reference::reduce({.dtype = dtype,
                                        .op = op,
                                        .sources = problem.sources,
                                        .divisor = problem.divisor,
                                        .factors = problem.factors});
  return problem;
}

/// A buffer whose data starts `offset` bytes after an aligned place, with guards on both sides.
struct Guarded {
  Guarded(std::size_t offset_bytes, std::size_t size_bytes)
      : storage(2 * kGuard + offset_bytes + size_bytes + kGuard, kUntouched), bytes(size_bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    offset = 2 * kGuard - address % kGuard + offset_bytes;
  }
  unsigned char* data() { return storage.data() + offset; }
  [[nodiscard]] bool guards_intact() const {
    const auto untouched = [](unsigned char byte) { return byte == kUntouched; };
    const auto begin = storage.begin() + static_cast<std::ptrdiff_t>(offset);
    return std::all_of(storage.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes), storage.end(), untouched);
  }
  std::vector<unsigned char> storage;
  std::size_t offset = 0;
  std::size_t bytes;
};

struct Layout {
  std::size_t elements = 0;
  std::size_t misalignment_bytes = 0;
  int alias = -1;  ///< the source that is also the destination
  bool also = false;
  StoreType out_store = StoreType::cached;
  StoreType also_store = StoreType::cached;
};

StoreType some_store(Rng& rng) {
  return rng.below(2) == 0 ? StoreType::cached : StoreType::streaming;
}

const char* text(StoreType store) { return store == StoreType::cached ? "cached" : "streaming"; }

std::string first_difference(const Problem& problem, const unsigned char* got,
                             std::size_t elements) {
  const std::size_t width = element_bytes(problem.dtype);
  for (std::size_t i = 0; i < elements; ++i) {
    if (std::memcmp(got + i * width, problem.expected.data() + i * width, width) == 0) {
      continue;
    }
    const auto hex = [width](const unsigned char* from) {
      return fmt::format("{:02x}", fmt::join(from, from + width, ""));
    };
    std::string text = fmt::format("element {}: {} instead of {} from", i, hex(got + i * width),
                                   hex(problem.expected.data() + i * width));
    for (const Bytes& source : problem.sources) {
      text += " " + hex(source.data() + i * width);
    }
    return text;
  }
  return "";
}

void check(const Problem& problem, const Layout& layout) {
  const std::size_t bytes = layout.elements * element_bytes(problem.dtype);
  const std::size_t count = problem.sources.size();
  std::vector<Guarded> buffers;
  std::vector<const void*> sources;
  buffers.reserve(count);
  for (std::size_t k = 0; k < count; ++k) {
    buffers.emplace_back(layout.misalignment_bytes * (k + 1), bytes);
    std::copy_n(problem.sources[k].begin(), bytes, buffers.back().data());
    sources.push_back(buffers.back().data());
  }
  Guarded separate(layout.misalignment_bytes * 5, bytes);
  Guarded also(layout.misalignment_bytes * 3, bytes);
  Guarded& out = layout.alias >= 0 ? buffers[static_cast<std::size_t>(layout.alias)] : separate;
  const ReduceKernel kernel = reduce_kernel(problem.dtype, problem.op);
  ASSERT_NE(kernel, nullptr);
  kernel({.sources = sources.data(),
          .count = static_cast<int>(count),
          .out = out.data(),
          .also = layout.also ? also.data() : nullptr,
          .out_store = layout.out_store,
          .also_store = layout.also_store,
          .elements = layout.elements,
          .divisor = problem.divisor,
          .factors = problem.factors.data()});
  const std::string what = fmt::format(
      "{} {} of {} sources, {} elements, misaligned by {}, alias {}, also {}, {} + {}",
      name(problem.dtype), name(problem.op), count, layout.elements, layout.misalignment_bytes,
      layout.alias, layout.also, text(layout.out_store), text(layout.also_store));
  EXPECT_EQ(first_difference(problem, out.data(), layout.elements), "") << what;
  EXPECT_TRUE(out.guards_intact()) << what;
  if (layout.also) {
    EXPECT_EQ(first_difference(problem, also.data(), layout.elements), "") << what;
    EXPECT_TRUE(also.guards_intact()) << what;
  }
}

void check_layouts(const Problem& problem, Rng& rng) {
  const std::size_t width = element_bytes(problem.dtype);
  for (const std::size_t elements : kLengths) {
    const auto count = static_cast<int>(problem.sources.size());
    const int alias = static_cast<int>(rng.below(static_cast<std::uint64_t>(count) + 1)) - 1;
    check(problem, {.elements = elements,
                    .misalignment_bytes = rng.below(4) * width,
                    .alias = alias,
                    .also = rng.below(2) == 0,
                    .out_store = some_store(rng),
                    .also_store = some_store(rng)});
  }
  check(problem, {.elements = kLongest, .misalignment_bytes = 0, .alias = 0});
  check(problem, {.elements = 79, .misalignment_bytes = 1});  // not even to the element
  // Whole blocks of every vector length, and a rest, by streaming stores only.
  for (const std::size_t elements : {std::size_t{256}, kLongest}) {
    check(problem, {.elements = elements,
                    .alias = 0,
                    .also = true,
                    .out_store = StoreType::streaming,
                    .also_store = StoreType::streaming});
  }
}

class EveryType : public testing::TestWithParam<DType> {};

TEST_P(EveryType, AgreesWithTheScalarReferenceOnEveryTarget) {
  Rng rng(static_cast<std::uint64_t>(GetParam()) + 1);
  for (std::size_t op_index = 0; op_index < kReduceOpCount; ++op_index) {
    const auto op = static_cast<ReduceOp>(op_index);
    if (!reference::defined(GetParam(), op)) {
      continue;
    }
    for (const int count : kCounts) {
      const Problem problem = some_problem(GetParam(), op, count, rng);
      on_every_target([&] { check_layouts(problem, rng); });
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST_P(EveryType, HasExactlyTheDefinedOperations) {
  on_every_target([&] {
    for (std::size_t op_index = 0; op_index < kReduceOpCount; ++op_index) {
      const auto op = static_cast<ReduceOp>(op_index);
      EXPECT_EQ(reduce_kernel(GetParam(), op) != nullptr, reference::defined(GetParam(), op))
          << name(GetParam()) << ' ' << name(op);
    }
  });
}

std::vector<DType> every_dtype() {
  std::vector<DType> all;
  for (const DTypeInfo& row : kDTypes) {
    all.push_back(row.dtype);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Reduce, EveryType, testing::ValuesIn(every_dtype()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Reduce, ResultDoesNotDependOnChunks) {
  constexpr std::size_t kElements = 30'000;
  Rng rng(7);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::complex64}) {
    const std::size_t width = element_bytes(dtype);
    const Bytes a = some_elements(dtype, kElements, rng);
    const Bytes b = some_elements(dtype, kElements, rng);
    const std::array<Bytes, 2> both{a, b};
    const Bytes whole = reference::reduce({.dtype = dtype, .op = ReduceOp::sum, .sources = both});
    on_every_target([&] {
      Bytes out(a.size());
      for (std::size_t done = 0; done < kElements;) {
        const std::size_t elements = std::min<std::size_t>(1 + rng.below(700), kElements - done);
        const std::array<const void*, 2> sources{a.data() + done * width, b.data() + done * width};
        reduce_kernel(dtype, ReduceOp::sum)({.sources = sources.data(),
                                             .count = 2,
                                             .out = out.data() + done * width,
                                             .elements = elements});
        done += elements;
      }
      EXPECT_EQ(out, whole) << name(dtype);
    });
  }
}

TEST(Reduce, RunsTheBestTargetUnlessToldOtherwise) {
  const auto targets = on_every_target([] {});
  EXPECT_TRUE(targets.contains("EMU128") || targets.contains("NEON"));
  const std::string best = kernel_target();
  EXPECT_TRUE(targets.contains(best)) << best;
  if (targets.size() > 1) {
    EXPECT_NE(best, "EMU128");
  }
}

}  // namespace
}  // namespace tutti
