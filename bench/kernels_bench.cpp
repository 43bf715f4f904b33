// Speed of the reduce kernels: float32, float16 and bfloat16 sums of 2 and 4 sources into a
// destination of their own, from what fits a first-level cache to what only memory holds; calls of
// a few bytes; and copies with both kinds of store. bytes_per_second counts every byte read and
// written once.
#include "kernels/copy.hpp"
#include "kernels/reduce.hpp"

#include <tutti/dtype.hpp>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

struct Shape {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int sources = 2;
  std::size_t bytes = 0;
};

/// Zeros, from pages that have been touched and do not share cache sets.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes) : storage_(count * (bytes + kStagger)) {
    for (std::size_t k = 0; k < count; ++k) {
      parts_.push_back(storage_.data() + k * (bytes + kStagger));
    }
  }
  unsigned char* operator[](std::size_t k) { return parts_[k]; }

 private:
  static constexpr std::size_t kStagger = 4 * kKiB + 64;
  std::vector<unsigned char> storage_;
  std::vector<unsigned char*> parts_{};
};

void reduce(benchmark::State& state, Shape shape) {
  const auto count = static_cast<std::size_t>(shape.sources);
  Buffers buffers(count + 1, shape.bytes);
  std::vector<const void*> sources;
  for (std::size_t k = 0; k < count; ++k) {
    sources.push_back(buffers[k]);
  }
  const std::vector<std::complex<double>> factors(count, 0.5);
  const ReduceArgs args{.sources = sources.data(),
                        .count = shape.sources,
                        .out = buffers[count],
                        .elements = shape.bytes / element_bytes(shape.dtype),
                        .divisor = shape.sources,
                        .factors = factors.data()};
  const ReduceKernel kernel = reduce_kernel(shape.dtype, shape.op);
  for (auto _ : state) {
    kernel(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(shape.bytes * (count + 1)));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(args.elements));
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
  const std::string title = fmt::format("reduce/{}/{}/sources:{}/bytes:{}", name(shape.dtype),
                                        name(shape.op), shape.sources, shape.bytes);
  benchmark::RegisterBenchmark(title.c_str(), reduce, shape);
}

void register_all() {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int sources : {2, 4}) {
      for (const std::size_t bytes :
           {std::size_t{4}, std::size_t{16}, std::size_t{64}, std::size_t{100}, 4 * kKiB, 64 * kKiB,
            kMiB, 8 * kMiB, 64 * kMiB}) {
        register_reduce({.dtype = dtype, .sources = sources, .bytes = bytes});
      }
    }
    for (const int sources : {8, 16}) {
      register_reduce({.dtype = dtype, .sources = sources, .bytes = 64 * kKiB});
      register_reduce({.dtype = dtype, .sources = sources, .bytes = 8 * kMiB});
    }
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::avg, ReduceOp::premul_sum}) {
      register_reduce({.dtype = dtype, .op = op, .sources = 2, .bytes = 64 * kKiB});
    }
  }
  for (const std::size_t bytes : {64 * kKiB, kMiB, 64 * kMiB}) {
    benchmark::RegisterBenchmark(fmt::format("copy/cached/bytes:{}", bytes).c_str(), copy,
                                 StoreType::cached, bytes);
    benchmark::RegisterBenchmark(fmt::format("copy/streaming/bytes:{}", bytes).c_str(), copy,
                                 StoreType::streaming, bytes);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("instruction set", tutti::kernel_target());
  tutti::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
