// DirectRun executes a direct plan: the shared-memory collectives. It never waits itself: advance()
// runs until a number that another rank publishes has not come yet, and says which.
//
// Safety of the slots. A rank overwrites call slot s % kCallSlots only when all members have
// finished call s - kCallSlots, and a ring slot only when its readers have posted what proves that
// they left it (TeamState::last_use). Everything a reader uses was written before the epoch it
// waited for.
#pragma once

#include "base/failure.hpp"
#include "engine/team_state.hpp"
#include "kernels/copy.hpp"
#include "kernels/reduce.hpp"
#include "plan/direct_plan.hpp"
#include "plan/request.hpp"
#include "transport/team.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti {

/// What a run waits for: `epoch` of the member at `seat` (-1: whoever arrives last) to reach
/// `target`.
struct Blocked {
  Epoch* epoch = nullptr;
  std::uint32_t target = 0;
  int seat = -1;
};

/// Where the pieces of one side lie. Blocks of equal size are computed, others looked up.
class PieceMap {
 public:
  void set(const BlockList& blocks, bool uneven, std::size_t element_bytes);
  std::byte* block(int p) const {
    return table_ == nullptr ? base_ + static_cast<std::size_t>(p) * stride_
                             : table_[static_cast<std::size_t>(p)].data;
  }
  std::size_t bytes(int p) const {
    return uneven_ ? table_[static_cast<std::size_t>(p)].elements * element_bytes_ : block_bytes_;
  }
  std::size_t largest() const { return largest_; }
  bool empty() const { return empty_; }

 private:
  std::byte* base_ = nullptr;
  const BlockView* table_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t element_bytes_ = 1;
  std::size_t largest_ = 0;
  bool uneven_ = false;
  bool empty_ = true;
};

class DirectRun {
 public:
  struct Sizes {
    std::size_t segment = 0;    ///< bytes per segment (staged)
    std::size_t ring = 0;       ///< bytes of the ring to use (staged)
    std::size_t streaming = 0;  ///< outputs from this size on are written with streaming stores
  };

  /// Starts; `call` and `plan` stay in place until the run ended. `in` and `out` of the call are
  /// the blocks of this stage. Nothing has been published yet.
  void start(Team& team, TeamState& state, const DirectPlan& plan, const Call& call,
             const Sizes& sizes);
  /// The same call once more: as start() with the same arguments, but nothing is looked up.
  void rewind();
  /// Runs on; true when done, false when blocked() says for what.
  bool advance();
  const Blocked& blocked() const { return blocked_; }
  /// While blocked: whether a member that shares this rank's CPU has not come as far as this rank
  /// waits for others to come. It cannot as long as this rank has the CPU.
  bool holds_up_others() const;
  /// While blocked: a member that called something else, if one is seen. Its fingerprint is in
  /// `theirs`, its seat is returned; -1 otherwise.
  int disagreeing_seat(std::uint64_t& theirs) const;
  /// The call in which a member went another way, if this call is alike but its history is not.
  struct EarlierCall {
    std::uint32_t back = 0;  ///< how many calls ago
    std::uint64_t mine = 0;
    std::uint64_t theirs = 0;
  };
  std::optional<EarlierCall> earlier_difference(int seat) const;
  /// Members that have not entered this call yet.
  std::vector<int> missing_seats() const;
  /// Set by advance() when a fingerprint differs: the run is over.
  bool mismatched() const { return mismatch_seat_ != kNone; }
  int mismatch_seat() const { return mismatch_seat_; }
  std::uint64_t mismatch_fingerprint() const { return mismatch_fingerprint_; }
  std::uint64_t fingerprint() const { return call_->fingerprint; }
  std::size_t bytes_done() const;
  std::size_t bytes_total() const { return total_; }

 private:
  static constexpr int kNone = -2;

  bool enter();
  bool run_step(const DirectStep& step);
  void leave();
  bool glimpse_disagreement();
  bool await(Epoch& epoch, std::uint32_t target, int seat);
  bool meet(int seat);
  bool passed(int seat, std::uint32_t epoch);
  bool await_post(const DirectStep& step, int seat);
  bool reuse_slot();
  void copy_in(const DirectStep& step);
  void copy_self(const DirectStep& step);
  void announce();
  bool wait_peers(const DirectStep& step);
  bool reduce(const DirectStep& step);
  bool fetch(const DirectStep& step);
  void fetch_from(const DirectStep& step, int seat);
  bool arrive();
  bool finish_arrival_as_last();
  bool take_result();
  bool find_disagreement();

  int piece(Piece piece, int seat) const;
  std::size_t segment_of(const DirectStep& step) const { return iteration_ - step.lag; }
  std::size_t share_offset(std::size_t segment, int p) const;
  std::size_t piece_bytes(const PieceMap& side, int p, std::size_t segment) const;
  std::byte* user(const PieceMap& side, int p, std::size_t segment) const;
  std::byte* slot(int seat, int p, std::size_t segment) const;
  CallSlot& call_slot(int seat) const { return team_->area(seat).calls[state_->call % kCallSlots]; }
  int peer_at(const DirectStep& step, int i) const;
  int peer_count(const DirectStep& step) const;

  Team* team_ = nullptr;
  TeamState* state_ = nullptr;
  const DirectPlan* plan_ = nullptr;
  const Call* call_ = nullptr;
  ReduceKernel kernel_ = nullptr;
  PieceMap in_;
  PieceMap out_;
  Seat seat_{};
  std::size_t element_bytes_ = 1;
  std::size_t total_ = 0;  ///< bytes of one block (whole, blocks) or of the data (shares)
  std::size_t segment_bytes_ = 0;
  std::size_t segments_ = 0;
  std::size_t iterations_ = 0;
  std::size_t iteration_ = 0;
  std::size_t step_ = 0;
  int peer_ = 0;            ///< progress within the step
  std::size_t prefix_ = 0;  ///< bytes before the data in a call slot (premul factor)
  std::uint32_t slots_ = 1;
  std::size_t sub_stride_ = 0;  ///< distance of the pieces in a slot
  std::size_t slot_bytes_ = 0;  ///< staged: of the whole slot
  StoreType output_store_ = StoreType::cached;
  bool entered_ = false;
  bool arrived_ = false;
  Blocked blocked_{};
  int mismatch_seat_ = kNone;
  std::uint64_t mismatch_fingerprint_ = 0;
  std::vector<std::uint32_t> met_{};  ///< seat -> last call in which its fingerprint was compared
  std::vector<const void*> sources_{};
  std::vector<std::complex<double>> factors_{};
};

}  // namespace tutti
