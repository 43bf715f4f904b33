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
//   hold blocks of other ranks' input, in the input's dtype: kept until reduce_held, or passing
//        through this rank on their way (gather and scatter by tree)
//
// `in` and `out` have `size` blocks when the Spec row says Part::world, or when the operation cuts
// one block into shares (Spec::cuts); a Part::block side of the other operations has exactly one
// block, number 0. acc has `size` blocks, cut like the data. hold has `size` blocks: all as large
// as this rank's own share if the operation reduces, else block r as large as rank r's share. The
// engine makes acc and hold only for plans that name them. No plan writes `in`. broadcast works on
// `out` alone: the root's holds the data from the start and is never written.
//
// What the engine may rely on; check.hpp proves it for every plan:
// - in, out and acc may be one memory, block by block, in all_reduce and reduce; out may be block
//   `rank` of in and of acc in reduce_scatter, and in block `rank` of out in all_gather. No block
//   is read after such an alias of it was written, unless both hold the same value.
// - No step in flight writes a block that another step of the round reads or writes. One exception:
//   an exchange may send blocks of acc and recv_reduce into them in one round, so the engine
//   combines what a recv_reduce received only when the round's sends of those blocks have ended.
// - The n-th send from a to b meets the n-th receive of b from a, in order of rounds, then steps.
//   A step with count 0 moves no data, it is a signal (barrier); its buffer may be absent.
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
    reduce_held,  // block `blocks.first` of in stands for this rank, block r of hold for each other
                  // rank r: all combined once, in rank order, finished as by `finish` -> to (one
                  // block of out, or this rank's own block of hold, which holds nothing else).
                  // A rank does not know the premul factors of the others: what is in `in` and
                  // travels has to be scaled already.
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
