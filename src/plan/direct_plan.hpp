// Direct plans: collectives of ranks that share memory. No messages: a rank publishes what it has
// and the others read or reduce it in place. Like message plans they are pure functions of a seat;
// unlike them they are a loop, so that their length does not grow with the data.
//
// Words. Each rank owns slots in shared memory that it alone writes. The data is cut into segments;
// segment t passes through one slot. A slot holds one or more pieces:
//   Cut::whole   one piece, number 0
//   Cut::shares  the segment itself, divided among the ranks: piece p is the share of rank p
//   Cut::blocks  segment t of each of the n blocks: piece p goes to (or comes from) rank p
// The user's memory has the same pieces, at segment t of the tensor (whole, shares) or of block p.
//
// Three protocols run these plans (protocols: docs/algorithms.md, "Direct plans"):
//   inlined  one segment; the slot is the call slot, so data and announcement are one cache line
//   arrival  as inlined, but ranks count themselves in; the last one works for all (`if_last`), the
//            others wait for its result
//   staged   segments flow through the ring of each rank
// In the staged protocol every rank counts its posts. Post number p of iteration t of a call has
// epoch base + posts * t + p, on every rank, so that "rank k has written segment x" is a number
// computed from x. Steps may lag behind: iteration t runs a step of lag l on segment t - l.
#pragma once

#include "plan/seat.hpp"
#include "plan/spec.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti {

/// Largest contribution of a rank that a call slot holds.
inline constexpr std::size_t kInlineBytes = 32768;

/// Largest part of its memory that a rank uses as a ring (staged).
inline constexpr std::size_t kMostRingBytes = std::size_t{1} << 20;

enum class Cut : std::uint8_t { whole, shares, blocks };
enum class Protocol : std::uint8_t { inlined, arrival, staged };

/// Which piece, relative to the rank that runs the step and the peer it looks at.
enum class Piece : std::uint8_t { zero, mine, theirs };

struct DirectStep {
  enum class Kind : std::uint8_t {
    copy_in,    // pieces of the input -> own slot
    copy_self,  // piece `from` of the input -> piece `to` of the output; nothing if they are the
                // same
    call,       // announce the call (inlined, arrival: with the data in the slot)
    reuse,      // wait until the readers have left the slot of segment t
    publish,    // post number `post` of this iteration
    wait,       // until `peers` have called and made post `post` for this segment
    reduce,  // own piece `from` of the input with the same piece of all other slots, in rank order
             // -> piece `to` of the output (to_output) and own slot (to_slot)
    fetch,   // from each of `peers`, after waiting as `wait` does: slot piece `from` -> output `to`
    arrive,  // count in; the last one runs if_last, then all others copy its result
  };
  enum class Peers : std::uint8_t { others, root };
  enum class Pieces : std::uint8_t { all, others };

  Kind kind = Kind::copy_in;
  Peers peers = Peers::others;
  Pieces pieces = Pieces::all;
  Piece from = Piece::zero;
  Piece to = Piece::zero;
  std::uint8_t lag = 0;
  std::uint8_t post = 0;        ///< wait, fetch: 0 means the call itself is enough
  std::uint8_t posted_lag = 0;  ///< lag of the publish step that a wait or fetch is about
  bool to_output = false;
  bool to_slot = false;
};

struct DirectPlan {
  Protocol protocol = Protocol::inlined;
  Cut cut = Cut::whole;
  std::vector<DirectStep> steps{};  ///< once (inlined, arrival) or per iteration (staged)
  int posts = 0;                    ///< per iteration
  int lag = 0;                      ///< largest lag of a step
  int root = -1;                    ///< seat, or -1
  /// Every rank waits for the call of every other one; then completing call s proves s-1 over.
  bool symmetric = true;
  /// Who reads this rank's slots: all others, or the root alone.
  DirectStep::Peers readers = DirectStep::Peers::others;
};

/// The epoch of post number `post` of `iteration` in a call that began at `base`.
constexpr std::uint32_t post_epoch(const DirectPlan& plan, std::uint32_t base,
                                   std::size_t iteration, std::uint32_t post) {
  return base + static_cast<std::uint32_t>(plan.posts) * static_cast<std::uint32_t>(iteration) +
         post;
}
/// What proves that a reader has left the slot written in `iteration`: its first post after the
/// iteration in which it read there, or after the call.
constexpr std::uint32_t left_epoch(const DirectPlan& plan, std::uint32_t base,
                                   std::size_t iteration) {
  return post_epoch(plan, base, iteration + static_cast<std::size_t>(plan.lag) + 1, 1);
}
/// The last post of a call of so many iterations, where the next one begins.
constexpr std::uint32_t end_epoch(const DirectPlan& plan, std::uint32_t base,
                                  std::size_t iterations) {
  return post_epoch(plan, base, iterations, 1);
}

/// The plan of `op` for `me` under `protocol`; `lookahead` (staged): how many segments the copies
/// into the slots run ahead of the rest.
DirectPlan direct_plan(Op op, Protocol protocol, Seat me, int root, int lookahead);

/// "direct_inlined", ...: as a caller may force it.
std::string_view name(Protocol protocol);

/// Whether `protocol` has a plan for `op`.
bool has_direct_plan(Op op, Protocol protocol);

}  // namespace tutti
