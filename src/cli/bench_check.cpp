#include "cli/bench_check.hpp"

#include "base/ensure.hpp"
#include "base/rng.hpp"
#include "tensor/scalar.hpp"

#include <algorithm>
#include <complex>
#include <cstring>

namespace tutti::cli {
namespace {

constexpr std::uint64_t kValues = 7;  // contributions are 1 to 7: exact even in float8_e5m2
constexpr std::byte kGarbage{0x7f};

using Value = std::complex<double>;

// Neighbouring ranks differ everywhere; ranks that are kValues apart differ at most places.
std::uint64_t digit(int rank, std::size_t place) {
  const auto number = static_cast<std::uint64_t>(rank);
  Rng rng(place * 65537 + number / kValues);
  return (rng.below(kValues) + number) % kValues;
}

// A product of many sevens would leave every range, one of few twos does not.
double part(DType dtype, ReduceOp op, int rank, std::size_t place) {
  const std::uint64_t value = digit(rank, place);
  if (info(dtype).kind == DTypeClass::boolean) {
    return static_cast<double>(value % 2);
  }
  if (op == ReduceOp::prod) {
    return value == 0 ? 2 : 1;
  }
  return static_cast<double>(value + 1);
}

Value value_of(DType dtype, ReduceOp op, int rank, std::size_t place) {
  const bool complex = info(dtype).kind == DTypeClass::complex;
  return {part(dtype, op, rank, place), complex ? part(dtype, op, rank, place + kPeriod) : 0.0};
}

Value combine(const ReduceOptions& reduce, Value a, Value b) {
  const auto bits = [](Value value) { return static_cast<std::uint64_t>(value.real()); };
  switch (reduce.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::min:
      return std::min(a.real(), b.real());
    case ReduceOp::max:
      return std::max(a.real(), b.real());
    case ReduceOp::band:
      return static_cast<double>(bits(a) & bits(b));
    case ReduceOp::bor:
      return static_cast<double>(bits(a) | bits(b));
    case ReduceOp::bxor:
      return static_cast<double>(bits(a) ^ bits(b));
  }
  return a;
}

// A division that the element type would round first, then once more on the way to a narrow type.
Value divide(DType dtype, Value sum, int ranks) {
  const Value quotient = sum / static_cast<double>(ranks);
  if (!is_narrow(dtype)) {
    return quotient;
  }
  return {static_cast<double>(static_cast<float>(quotient.real())), 0.0};
}

std::size_t place_of(const Workload& work, int rank) {
  return static_cast<std::size_t>(rank) * work.layout.share % kPeriod;
}

void fill_with_garbage(const Tensor& tensor) {
  std::memset(tensor.data(), std::to_integer<int>(kGarbage), tensor.bytes());
}

std::size_t wrong_reduction(const BenchOp& row, Workload& work) {
  const Layout& layout = work.layout;
  contribution(layout.dtype, work.reduce.op, work.rank)
      .fill(work.in, {.elements = layout.elements});
  if (work.out.defined()) {
    fill_with_garbage(work.out);
  }
  row.iterate(work, 0, 1);
  const Pattern expected = reduction(layout.dtype, work.reduce, work.ranks);
  return work.out.defined() ? expected.differences(work.out, {.place = place_of(work, work.rank),
                                                              .elements = layout.share})
                            : expected.differences(work.in, {.elements = layout.elements});
}

// all_gather and all_to_all: share r of the output comes from rank r; all_to_all takes from rank r
// the share that is this rank's.
std::size_t wrong_exchange(const BenchOp& row, Workload& work) {
  const Layout& layout = work.layout;
  contribution(layout.dtype, ReduceOp::sum, work.rank)
      .fill(work.in, {.elements = layout.in_elements});
  fill_with_garbage(work.out);
  row.iterate(work, 0, 1);
  std::size_t wrong = 0;
  const std::size_t place = row.op == Op::all_to_all ? place_of(work, work.rank) : 0;
  for (int rank = 0; rank < work.ranks; ++rank) {
    wrong += contribution(layout.dtype, ReduceOp::sum, rank)
                 .differences(work.out, {.offset = static_cast<std::size_t>(rank) * layout.share,
                                         .place = place,
                                         .elements = layout.share});
  }
  return wrong;
}

std::size_t wrong_broadcast(const BenchOp& row, Workload& work) {
  std::size_t wrong = 0;
  const Pattern::Range all{.elements = work.layout.elements};
  for (const int root : {0, work.ranks - 1}) {
    const Pattern sent = contribution(work.layout.dtype, ReduceOp::sum, root);
    if (work.rank == root) {
      sent.fill(work.in, all);
    } else {
      fill_with_garbage(work.in);
    }
    row.iterate(work, root, 1);
    wrong += sent.differences(work.in, all);
  }
  return wrong;
}

// The leading rank's pattern must reach its mate, and in a ping-pong come back.
std::size_t wrong_messages(const BenchOp& row, Workload& work) {
  const Pattern::Range all{.elements = work.layout.in_elements};
  const Pattern sent = contribution(work.layout.dtype, ReduceOp::sum, work.rank & ~1);
  if (work.leads()) {
    sent.fill(work.in, all);
  } else {
    fill_with_garbage(work.in);
  }
  row.iterate(work, 0, 1);
  return sent.differences(work.in, all);
}

}  // namespace

Pattern::Pattern(DType dtype, const std::function<Value(std::size_t place)>& value)
    : dtype_(dtype), table_(2 * kPeriod * element_bytes(dtype)) {
  const std::size_t bytes = element_bytes(dtype);
  for (std::size_t i = 0; i < 2 * kPeriod; ++i) {
    scalar::write(dtype, table_.data() + i * bytes, value(i % kPeriod));
  }
}

void Pattern::fill(const Tensor& target, Range range) const {
  const std::size_t bytes = element_bytes(dtype_);
  const std::byte* source = table_.data() + range.place % kPeriod * bytes;
  auto* out = target.data_as<std::byte>() + range.offset * bytes;
  for (std::size_t done = 0; done < range.elements; done += kPeriod) {
    std::memcpy(out + done * bytes, source, std::min(kPeriod, range.elements - done) * bytes);
  }
}

std::size_t Pattern::differences(const Tensor& actual, Range range) const {
  const std::size_t bytes = element_bytes(dtype_);
  const std::byte* expected = table_.data() + range.place % kPeriod * bytes;
  const auto* found = actual.data_as<std::byte>() + range.offset * bytes;
  std::size_t count = 0;
  for (std::size_t done = 0; done < range.elements; done += kPeriod) {
    const std::size_t piece = std::min(kPeriod, range.elements - done);
    if (std::memcmp(found + done * bytes, expected, piece * bytes) == 0) {
      continue;
    }
    for (std::size_t i = 0; i < piece; ++i) {
      count += std::memcmp(found + (done + i) * bytes, expected + i * bytes, bytes) != 0 ? 1 : 0;
    }
  }
  return count;
}

Pattern contribution(DType dtype, ReduceOp op, int rank) {
  return {dtype, [=](std::size_t place) { return value_of(dtype, op, rank, place); }};
}

Pattern reduction(DType dtype, const ReduceOptions& reduce, int ranks) {
  const auto contributed = [&](int rank, std::size_t place) {
    const Value value = value_of(dtype, reduce.op, rank, place);
    return reduce.op == ReduceOp::premul_sum ? value * reduce.factor : value;
  };
  return {dtype, [&](std::size_t place) {
            Value result = contributed(0, place);
            for (int rank = 1; rank < ranks; ++rank) {
              result = combine(reduce, result, contributed(rank, place));
            }
            return reduce.op == ReduceOp::avg ? divide(dtype, result, ranks) : result;
          }};
}

std::size_t count_wrong(const BenchOp& row, Workload& work) {
  if (row.sizing == Sizing::pairs) {
    return wrong_messages(row, work);
  }
  switch (row.op) {
    case Op::all_reduce:
    case Op::reduce_scatter:
      return wrong_reduction(row, work);
    case Op::all_gather:
    case Op::all_to_all:
      return wrong_exchange(row, work);
    case Op::broadcast:
      return wrong_broadcast(row, work);
    case Op::barrier:
      return 0;
    case Op::reduce:
    case Op::scatter:
    case Op::gather:
    case Op::send:
    case Op::recv:
      break;
  }
  ensure(false, "an operation that is measured has a check");
  return 0;
}

}  // namespace tutti::cli
