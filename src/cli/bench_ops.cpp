#include "cli/bench_ops.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tutti::cli {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMinBufferBytes = 64;
constexpr int kWindow = 16;
constexpr std::size_t kMaxWindowBytes = std::size_t{32} << 20;

// One loop per operation around the public blocking call, nothing between the two.

void all_reduce_loop(Workload& work, int, int count) {
  for (int i = 0; i < count; ++i) {
    all_reduce(work.group, work.in, work.reduce);
  }
}

void all_gather_loop(Workload& work, int, int count) {
  for (int i = 0; i < count; ++i) {
    all_gather_into_tensor(work.group, work.out, work.in);
  }
}

void reduce_scatter_loop(Workload& work, int, int count) {
  for (int i = 0; i < count; ++i) {
    reduce_scatter_tensor(work.group, work.out, work.in, work.reduce);
  }
}

void broadcast_loop(Workload& work, int first, int count) {
  int root = first % work.ranks;
  for (int i = 0; i < count; ++i) {
    broadcast(work.group, work.in, root);
    root = root + 1 == work.ranks ? 0 : root + 1;
  }
}

void all_to_all_loop(Workload& work, int, int count) {
  for (int i = 0; i < count; ++i) {
    all_to_all_single(work.group, work.out, work.in);
  }
}

void barrier_loop(Workload& work, int, int count) {
  for (int i = 0; i < count; ++i) {
    barrier(work.group);
  }
}

void send_recv_loop(Workload& work, int, int count) {
  const int mate = work.mate();
  for (int i = 0; i < count; ++i) {
    if (work.leads()) {
      send(work.group, work.in, mate);
      recv(work.group, work.in, mate);
    } else {
      recv(work.group, work.in, mate);
      send(work.group, work.in, mate);
    }
  }
}

void window_loop(Workload& work, int, int count) {
  const int mate = work.mate();
  for (int i = 0; i < count; ++i) {
    wait_all(batch_isend_irecv(work.group, work.window));
    if (work.leads()) {
      recv(work.group, work.ack, mate);
    } else {
      send(work.group, work.ack, mate);
    }
  }
}

constexpr std::array kBenchOps{
    BenchOp{.name = "all_reduce",
            .op = Op::all_reduce,
            .sizing = Sizing::buffer,
            .iterate = all_reduce_loop},
    BenchOp{.name = "all_gather",
            .op = Op::all_gather,
            .sizing = Sizing::shares,
            .iterate = all_gather_loop},
    BenchOp{.name = "reduce_scatter",
            .op = Op::reduce_scatter,
            .sizing = Sizing::shares,
            .iterate = reduce_scatter_loop},
    BenchOp{.name = "broadcast",
            .op = Op::broadcast,
            .sizing = Sizing::buffer,
            .iterate = broadcast_loop},
    BenchOp{.name = "all_to_all",
            .op = Op::all_to_all,
            .sizing = Sizing::shares,
            .iterate = all_to_all_loop},
    BenchOp{.name = "barrier", .op = Op::barrier, .iterate = barrier_loop},
    BenchOp{.name = "sendrecv",
            .op = Op::send,
            .sizing = Sizing::pairs,
            .messages_per_call = 2,
            .iterate = send_recv_loop},
    BenchOp{.name = "bw",
            .op = Op::send,
            .sizing = Sizing::pairs,
            .max_window = kWindow,
            .iterate = window_loop},
};

template <class Wanted>
std::string names_of(Wanted wanted) {
  std::string names;
  for (const BenchOp& row : kBenchOps) {
    if (wanted(row)) {
      names += names.empty() ? "" : ", ";
      names += row.name;
    }
  }
  return names;
}

Tensor page_aligned(std::size_t elements, DType dtype) {
  const std::size_t bytes = std::max(kMinBufferBytes, elements * element_bytes(dtype));
  const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  void* data = std::aligned_alloc(kPageBytes, pages * kPageBytes);
  if (data == nullptr) {
    throw std::bad_alloc();
  }
  std::shared_ptr<void> owner(data, std::free);
  std::memset(data, 0, bytes);  // touched: page faults are no part of what is measured
  return Tensor::from_blob(data, {static_cast<std::int64_t>(elements)}, dtype, {},
                           std::move(owner));
}

std::vector<P2POp> window_of(const Workload& work) {
  std::vector<P2POp> window;
  const auto elements = static_cast<std::int64_t>(work.layout.elements);
  for (int i = 0; i < work.layout.window; ++i) {
    window.push_back({.kind = work.leads() ? P2POp::Kind::isend : P2POp::Kind::irecv,
                      .tensor = work.in.slice(0, i * elements, (i + 1) * elements),
                      .peer = work.mate()});
  }
  return window;
}

}  // namespace

std::span<const BenchOp> bench_ops() { return kBenchOps; }

std::string bench_op_names() {
  return names_of([](const BenchOp&) { return true; });
}

std::string reducing_bench_op_names() {
  return names_of([](const BenchOp& row) { return spec(row.op).reduces; });
}

const BenchOp* find_bench_op(std::string_view name) {
  const auto* const found = std::find_if(kBenchOps.begin(), kBenchOps.end(),
                                         [&](const BenchOp& row) { return row.name == name; });
  return found == kBenchOps.end() ? nullptr : found;
}

Layout layout_of(const BenchOp& row, DType dtype, std::size_t bytes, int ranks) {
  Layout layout{.dtype = dtype, .asked_bytes = bytes};
  if (row.sizing == Sizing::none) {
    return layout;
  }
  layout.elements = std::max<std::size_t>(1, bytes / element_bytes(dtype));
  layout.share = layout.elements;
  if (row.sizing == Sizing::shares) {
    const auto shares = static_cast<std::size_t>(ranks);
    layout.share = std::max<std::size_t>(1, layout.elements / shares);
    layout.elements = layout.share * shares;
  }
  const auto fit = static_cast<std::int64_t>(kMaxWindowBytes / std::max<std::size_t>(bytes, 1));
  layout.window = static_cast<int>(std::clamp<std::int64_t>(fit, 1, row.max_window));
  layout.in_elements = row.op == Op::all_gather
                           ? layout.share
                           : layout.elements * static_cast<std::size_t>(layout.window);
  if (row.sizing == Sizing::shares) {
    layout.out_elements = row.op == Op::reduce_scatter ? layout.share : layout.elements;
  }
  return layout;
}

void make_buffers(const BenchOp& row, Workload& work) {
  work.in = page_aligned(work.layout.in_elements, work.layout.dtype);
  work.out = row.sizing == Sizing::shares
                 ? page_aligned(work.layout.out_elements, work.layout.dtype)
                 : Tensor();
  work.window.clear();
  if (row.sizing == Sizing::pairs) {
    work.window = window_of(work);
    work.ack = Tensor::zeros({4}, DType::u8);
  }
}

void clear_input(const Workload& work) { std::memset(work.in.data(), 0, work.in.bytes()); }

}  // namespace tutti::cli
