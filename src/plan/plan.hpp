// Plans are data: what one rank does in a collective, as a pure function of (seat, root). This file
// is the vocabulary of message plans; direct_plan.hpp has the one for ranks that share memory.
//
// A message plan is a list of rounds. The local steps of a round run first, in order; then its
// sends and receives are in flight together, and the round ends when all have ended. Bytes,
// segments, dtypes and addresses are the engine's business: a step names a range of blocks in one
// of the buffers.
//
// Buffers, each an array of `size` blocks (the shares of the ranks; a plan that treats the data as
// a whole names all of them):
//   in   the caller's input, read only     (absent where the Spec row gives this rank no input)
//   out  the caller's output               (absent likewise)
//   acc  partial results, in the accumulator's dtype; `load` fills it, `finish` rounds it into out.
//        The engine lets acc be out itself where that changes nothing.
//   hold blocks of other ranks' input, in the input's dtype, kept until reduce_held
// `in` and `out` have `size` blocks when the Spec row says Part::world, or when the operation cuts
// one block into shares (all_reduce, reduce, broadcast); a Part::block side of the other operations
// has exactly one block, number 0.
#pragma once

#include "plan/seat.hpp"

#include <cstdint>
#include <vector>

namespace tutti {

enum class Buffer : std::uint8_t { in, out, acc, hold };

/// Blocks first, first+1, ... first+count-1, modulo the number of blocks of the buffer.
struct Range {
  Buffer buffer = Buffer::in;
  int first = 0;
  int count = 1;
  bool operator==(const Range&) const = default;
};

struct Step {
  enum class Kind : std::uint8_t {
    send,         // blocks -> peer
    recv,         // peer -> blocks
    recv_reduce,  // peer -> combined into blocks of acc: own op received if the peer has the higher
                  // rank, else received op own, so that the order is a property of the plan
    copy,         // blocks -> to
    load,         // blocks of in -> to (acc), widened, multiplied by the premul factor
    finish,       // blocks of acc -> to (out), divided for avg, rounded
    reduce_held,  // block `blocks.first` of in and all blocks of hold -> to (out), in rank order,
                  // once
  };
  Kind kind = Kind::send;
  int peer = -1;
  Range blocks{};
  Range to{};
};

struct Round {
  std::vector<Step> steps{};
};

struct Plan {
  std::vector<Round> rounds{};
};

/// `first`, then `second`.
Plan then(Plan first, Plan second);

}  // namespace tutti
