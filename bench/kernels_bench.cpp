// Speed of the reduce kernels: sums of 2, 3, 4 and 8 sources into a destination of their own, from
// one element to what only memory holds, with both kinds of store; the other operations; and
// copies. Sizes are counts of elements, so that rows of unlike types compare per element.
// bytes_per_second counts every byte read and written once. `--target=AVX2` pretends a lesser CPU.
#include "kernels/copy.hpp"
#include "kernels/reduce.hpp"

#include <tutti/dtype.hpp>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <hwy/targets.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kKi = 1024;
constexpr std::size_t kMi = 1024 * kKi;

/// Ordinary numbers of every type, on pages that have been touched and do not share cache sets.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes)
      : stride_((bytes + 63) / 64 * 64 + kStagger), storage_(count * stride_ + 64, kOrdinary) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    first_ = storage_.data() + (64 - address % 64);
  }
  unsigned char* operator[](std::size_t k) { return first_ + k * stride_; }

 private:
  static constexpr std::size_t kStagger = 4 * kKi + 7 * 64;
  static constexpr unsigned char kOrdinary = 0x3c;  ///< no subnormal, infinity or NaN of any type
  std::size_t stride_;
  std::vector<unsigned char> storage_;
  unsigned char* first_ = nullptr;
};

struct Shape {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int sources = 2;
  std::size_t elements = 0;
};

void reduce(benchmark::State& state, Shape shape) {
  const auto count = static_cast<std::size_t>(shape.sources);
  const std::size_t bytes = shape.elements * element_bytes(shape.dtype);
  Buffers buffers(count + 1, bytes);
  std::vector<const void*> sources;
  for (std::size_t k = 0; k < count; ++k) {
    sources.push_back(buffers[k]);
  }
  const std::vector<std::complex<double>> factors(count, 0.5);
  const ReduceKernel kernel = reduce_kernel(shape.dtype, shape.op);
  for (auto _ : state) {
    // Written anew for each call, as callers do: a kernel that copies them with wide loads pays.
    ReduceArgs args{.sources = sources.data(), .count = shape.sources, .out = buffers[count]};
    args.elements = shape.elements;
    args.divisor = shape.sources;
    args.factors = factors.data();
    benchmark::DoNotOptimize(args);
    kernel(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes * (count + 1)));
}

void copy(benchmark::State& state, StoreType store, std::size_t bytes) {
  Buffers buffers(2, bytes);
  for (auto _ : state) {
    copy_bytes(buffers[1], buffers[0], bytes, store);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}

void register_reduce(const Shape& shape) {
  const std::string title = fmt::format("reduce/{}/{}/sources:{}/elements:{}", name(shape.dtype),
                                        name(shape.op), shape.sources, shape.elements);
  benchmark::RegisterBenchmark(title.c_str(), reduce, shape);
}

void register_reductions() {
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i8, DType::f8e4m3fn}) {
    for (const std::size_t elements :
         {std::size_t{1}, std::size_t{4}, std::size_t{7}, std::size_t{16}, std::size_t{31},
          std::size_t{256}, 2 * kKi, 16 * kKi, 128 * kKi, 8 * kMi}) {
      for (const int sources : {2, 3, 4, 8}) {
        register_reduce({.dtype = dtype, .sources = sources, .elements = elements});
      }
    }
    for (const ReduceOp op : {ReduceOp::prod, ReduceOp::max, ReduceOp::avg}) {
      register_reduce({.dtype = dtype, .op = op, .elements = 32 * kKi});
    }
  }
}

void register_copies() {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{256}, kKi, 4 * kKi, 16 * kKi,
                                  64 * kKi, kMi, 2 * kMi, 8 * kMi, 64 * kMi}) {
    benchmark::RegisterBenchmark(fmt::format("copy/cached/bytes:{}", bytes).c_str(), copy,
                                 StoreType::cached, bytes);
    benchmark::RegisterBenchmark(fmt::format("copy/streaming/bytes:{}", bytes).c_str(), copy,
                                 StoreType::streaming, bytes);
  }
}

/// Takes `--target=NAME` out of the arguments; false, with a message, if this CPU has no such set.
bool choose_target(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--target=";
  if (argc < 2 || !std::string_view(argv[1]).starts_with(kFlag)) {
    return true;
  }
  const std::string_view wanted = std::string_view(argv[1]).substr(kFlag.size());
  std::string known;
  for (std::int64_t rest = hwy::SupportedTargets() | HWY_EMU128; rest != 0; rest &= rest - 1) {
    const char* const target = hwy::TargetName(rest & -rest);
    known += fmt::format(" {}", target);
    if (wanted == target) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
      hwy::GetChosenTarget().Update(rest & -rest);
      argv[1] = argv[0];
      return true;
    }
  }
  fmt::print(stderr, "--target={}: this CPU has{}\n", wanted, known);
  return false;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (!tutti::choose_target(argc, argv)) {
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("instruction set", tutti::kernel_target());
  tutti::register_reductions();
  tutti::register_copies();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
