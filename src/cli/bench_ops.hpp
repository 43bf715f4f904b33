// The operations that `tutti bench` measures: a table. A row says how buffers are sized, which
// factor turns bandwidth into bus bandwidth, and how the operation is called in a loop.
#pragma once

#include "plan/spec.hpp"

#include <tutti/collectives.hpp>
#include <tutti/group.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// What a size in bytes means, and which buffers there are.
enum class Sizing : std::uint8_t {
  none,    ///< no data
  buffer,  ///< the one buffer that every rank has
  shares,  ///< the buffer of all ranks' shares: its size is a multiple of the ranks'
  pairs,   ///< messages between ranks 2k and 2k + 1
};

/// Sizes of one measurement, in elements of `dtype` and bytes.
struct Layout {
  DType dtype = DType::f32;
  std::size_t asked_bytes = 0;  ///< as the command line counts, printed
  std::size_t share = 0;        ///< elements of one rank's share; of the buffer where not shared
  std::size_t elements = 0;     ///< elements of the whole buffer; of one message
  std::size_t in_elements = 0;
  std::size_t out_elements = 0;
  int window = 1;  ///< messages in flight

  std::size_t bytes() const { return elements * element_bytes(dtype); }
};

/// Buffers and arguments of one measurement; made once, used by every call.
struct Workload {
  Group group{};
  int rank = 0;
  int ranks = 1;
  ReduceOptions reduce{};
  Layout layout{};
  Tensor in{};
  Tensor out{};                 ///< undefined where the operation works in place
  std::vector<P2POp> window{};  ///< bw: the messages of one turn
  Tensor ack{};                 ///< bw: the answer to them

  int mate() const { return rank ^ 1; }
  bool leads() const { return rank % 2 == 0; }
};

struct BenchOp {
  std::string_view name{};
  Op op{};  ///< whose bus factor counts
  Sizing sizing = Sizing::none;
  int messages_per_call = 1;  ///< sendrecv: a call is a round trip of two
  int max_window = 1;         ///< messages in flight, if they are small enough
  /// Calls the operation for turns first, first + 1, ..., `count` of them. Broadcast takes the turn
  /// modulo the ranks as its root, else the root would run ahead of the others.
  void (*iterate)(Workload& work, int first, int count) = nullptr;
};

std::span<const BenchOp> bench_ops();
/// "all_gather, barrier": for help and messages.
std::string bench_op_names();
/// Of those that reduce.
std::string reducing_bench_op_names();
/// Null if there is none of this name.
const BenchOp* find_bench_op(std::string_view name);

/// Sizes for `bytes` as asked for; at least one element, or one per rank.
Layout layout_of(const BenchOp& row, DType dtype, std::size_t bytes, int ranks);

/// Fills in the buffers of `work`, whose other members are set: page aligned, zeroed.
void make_buffers(const BenchOp& row, Workload& work);

/// Puts zeros into the input, so that sums stay finite however often they are repeated.
void clear_input(const Workload& work);

}  // namespace tutti::cli
