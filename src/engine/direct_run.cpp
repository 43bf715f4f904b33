#include "engine/direct_run.hpp"

#include "base/ensure.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kFactorBytes = sizeof(std::complex<double>);
static_assert(kInlineBytes + kFactorBytes <= kSlotBytes);

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void PieceMap::set(const BlockList& blocks, bool uneven, std::size_t element_bytes) {
  *this = PieceMap{};
  element_bytes_ = element_bytes;
  if (blocks.empty()) {
    return;
  }
  empty_ = false;
  uneven_ = uneven;
  base_ = blocks[0].data;
  block_bytes_ = blocks[0].elements * element_bytes;
  largest_ = block_bytes_;
  stride_ = block_bytes_;
  for (std::size_t p = 1; p < blocks.size(); ++p) {
    largest_ = std::max(largest_, blocks[p].elements * element_bytes);
    if (blocks[p].data != base_ + p * stride_) {
      table_ = blocks.data();
    }
  }
  if (uneven) {
    table_ = blocks.data();
  }
}

void DirectRun::start(Team& team, TeamState& state, const DirectPlan& plan, const Call& call,
                      const Sizes& sizes) {
  team_ = &team;
  state_ = &state;
  plan_ = &plan;
  call_ = &call;
  seat_ = team.seat();
  element_bytes_ = element_bytes(call.dtype);
  in_.set(call.in, call.uneven, element_bytes_);
  out_.set(call.out, call.uneven, element_bytes_);
  total_ = std::max(in_.largest(), out_.largest());
  kernel_ = spec(call.op).reduces ? reduce_kernel(call.dtype, call.reduce) : nullptr;
  prefix_ = call.reduce == ReduceOp::premul_sum && kernel_ != nullptr ? kFactorBytes : 0;
  const auto size = static_cast<std::size_t>(seat_.size);
  if (plan.protocol == Protocol::staged) {
    const std::size_t pieces = plan.cut == Cut::blocks ? size : 1;
    segment_bytes_ =
        std::min(round_up(std::max<std::size_t>(total_, 1), kLineBytes),
                 std::max(sizes.segment / pieces / kLineBytes * kLineBytes, kLineBytes));
    segments_ = (total_ + segment_bytes_ - 1) / segment_bytes_;
    sub_stride_ = segment_bytes_;
    slot_bytes_ = segment_bytes_ * pieces;
    slots_ = static_cast<std::uint32_t>(
        std::min(std::min(sizes.ring, kRingBytes) / slot_bytes_, kMaxRingSlots));
    // Segment t + slots_ needs everybody's post of iteration t + lag + 1, made before they need it.
    ensure(slots_ >= static_cast<std::uint32_t>(plan.lag) + 2,
           "the ring holds the segments in flight");
  } else {
    segment_bytes_ = total_;
    sub_stride_ = total_;
    segments_ = 1;
  }
  iterations_ = plan.protocol == Protocol::staged && segments_ > 0
                    ? segments_ + static_cast<std::size_t>(plan.lag)
                    : segments_;
  output_store_ =
      sizes.streaming != 0 && total_ >= sizes.streaming ? StoreType::streaming : StoreType::cached;
  met_.resize(size, 0);
  rewind();
}

void DirectRun::rewind() {
  if (plan_->protocol == Protocol::staged && state_->slot_bytes != slot_bytes_) {
    // Another division of the ring: every slot is free once all have ended all earlier calls.
    state_->slot_bytes = slot_bytes_;
    state_->last_use.fill({.progress = state_->base});
  }
  iteration_ = 0;
  step_ = 0;
  peer_ = 0;
  entered_ = false;
  arrived_ = false;
  mismatch_seat_ = kNone;
}

bool DirectRun::advance() {
  if (!entered_) {
    if (!enter()) {
      return false;
    }
  }
  for (; iteration_ < iterations_; ++iteration_) {
    for (; step_ < plan_->steps.size(); ++step_) {
      if (!run_step(plan_->steps[step_])) {
        return false;
      }
    }
    step_ = 0;
  }
  if (!plan_->symmetric && glimpse_disagreement()) {
    return false;
  }
  leave();
  return true;
}

/// A rank that waits for nobody, such as a root, may have been told of a disagreement all the same:
/// of two ranks that both take themselves for the root, the later one sees it.
bool DirectRun::glimpse_disagreement() {
  mismatch_seat_ = disagreeing_seat(mismatch_fingerprint_);
  if (mismatch_seat_ < 0) {
    mismatch_seat_ = kNone;
    return false;
  }
  blocked_ = {&call_slot(mismatch_seat_).epoch, state_->call, mismatch_seat_};
  return true;
}

bool DirectRun::await(Epoch& epoch, std::uint32_t target, int seat) {
  if (reached(epoch, target)) {
    return true;
  }
  blocked_ = {&epoch, target, seat};
  return false;
}

/// Opens the call: its slot must be free, then (staged) it is announced before anything else.
bool DirectRun::enter() {
  const std::uint32_t next = state_->call + 1;
  const std::uint32_t finished = next - kCallSlots;
  if (next > kCallSlots && !reached(state_->safe, finished)) {
    for (; peer_ < seat_.size; ++peer_) {
      if (peer_ != seat_.rank && !await(team_->area(peer_).ack, finished, peer_)) {
        return false;
      }
    }
    peer_ = 0;
    state_->safe = finished;
  }
  state_->call = next;
  entered_ = true;
  met_[static_cast<std::size_t>(seat_.rank)] = next;
  if (plan_->protocol == Protocol::staged) {
    announce();
  }
  return true;
}

void DirectRun::announce() {
  CallSlot& own = call_slot(seat_.rank);
  own.fingerprint = call_->fingerprint;
  own.history = call_->history;
  if (prefix_ != 0) {
    std::memcpy(own.data, &call_->factor, kFactorBytes);
  }
  team_->post(own.epoch, state_->call);
}

void DirectRun::leave() {
  if (plan_->protocol == Protocol::staged) {
    state_->base = end_epoch(*plan_, state_->base, iterations_);
    state_->cursor += static_cast<std::uint32_t>(segments_);
    team_->post(team_->own().progress, state_->base);
  }
  if (plan_->symmetric) {
    state_->safe = state_->call - 1;
  }
  if (state_->call % 2 == 1) {
    team_->post(team_->own().ack, state_->call);
  }
}

bool DirectRun::run_step(const DirectStep& step) {
  // A lagging step has nothing to do in the first iterations, the others in the last ones. Posts
  // are made whenever their segment exists.
  if (iteration_ < step.lag || segment_of(step) >= segments_) {
    return true;
  }
  switch (step.kind) {
    case DirectStep::Kind::copy_in:
      copy_in(step);
      return true;
    case DirectStep::Kind::copy_self:
      copy_self(step);
      return true;
    case DirectStep::Kind::call:
      announce();
      return true;
    case DirectStep::Kind::reuse:
      return reuse_slot();
    case DirectStep::Kind::publish:
      team_->post(team_->own().progress, post_epoch(*plan_, state_->base, iteration_, step.post));
      return true;
    case DirectStep::Kind::wait:
      return wait_peers(step);
    case DirectStep::Kind::reduce:
      return reduce(step);
    case DirectStep::Kind::fetch:
      return fetch(step);
    case DirectStep::Kind::arrive:
      return arrive();
  }
  return true;
}

/// Before anything of a member is used: it has called, and called the same.
bool DirectRun::meet(int seat) {
  if (met_[static_cast<std::size_t>(seat)] == state_->call) {
    return true;
  }
  CallSlot& theirs = call_slot(seat);
  if (!await(theirs.epoch, state_->call, seat)) {
    return false;
  }
  if (theirs.history != call_->history) {
    mismatch_seat_ = seat;
    mismatch_fingerprint_ = theirs.fingerprint;
    blocked_ = {&theirs.epoch, state_->call, seat};
    return false;
  }
  met_[static_cast<std::size_t>(seat)] = state_->call;
  return true;
}

bool DirectRun::passed(int seat, std::uint32_t epoch) {
  std::uint32_t& seen = state_->seen[static_cast<std::size_t>(seat)];
  if (reached(seen, epoch)) {
    return true;
  }
  Line& progress = team_->area(seat).progress;
  if (!await(progress, epoch, seat)) {
    return false;
  }
  seen = progress.value.load(std::memory_order_acquire);
  return true;
}

bool DirectRun::await_post(const DirectStep& step, int seat) {
  if (!meet(seat)) {
    return false;
  }
  if (step.post == 0) {
    return true;
  }
  const std::size_t iteration = segment_of(step) + step.posted_lag;
  return passed(seat, post_epoch(*plan_, state_->base, iteration, step.post));
}

int DirectRun::peer_count(const DirectStep& step) const {
  return step.peers == DirectStep::Peers::others ? seat_.size - 1 : 1;
}

int DirectRun::peer_at(const DirectStep& step, int i) const {
  return step.peers == DirectStep::Peers::others ? seat_.at(i + 1) : plan_->root;
}

/// The slot's last readers count, whatever the present call's are.
bool DirectRun::reuse_slot() {
  SlotUse& use = state_->last_use[(state_->cursor + iteration_) % slots_];
  for (; peer_ < seat_.size; ++peer_) {
    const bool read =
        peer_ != seat_.rank && (use.reader == SlotUse::kEveryone || peer_ == use.reader);
    if (read && !passed(peer_, use.progress)) {
      return false;
    }
  }
  peer_ = 0;
  use = {.progress = left_epoch(*plan_, state_->base, iteration_),
         .reader = plan_->readers == DirectStep::Peers::root ? plan_->root : SlotUse::kEveryone};
  return true;
}

int DirectRun::piece(Piece piece, int seat) const {
  switch (piece) {
    case Piece::zero:
      return 0;
    case Piece::mine:
      return seat_.rank;
    case Piece::theirs:
      return seat;
  }
  return 0;
}

/// Where share p of a segment begins, in bytes; share `size` is the segment's end. Shares begin on
/// cache lines so that two ranks never write the same one.
std::size_t DirectRun::share_offset(std::size_t segment, int p) const {
  const std::size_t bytes = std::min(segment_bytes_, total_ - segment * segment_bytes_);
  const auto size = static_cast<std::size_t>(seat_.size);
  const std::size_t share = round_up((bytes + size - 1) / size, kLineBytes);
  return std::min(bytes, share * static_cast<std::size_t>(p));
}

std::size_t DirectRun::piece_bytes(const PieceMap& side, int p, std::size_t segment) const {
  if (plan_->cut == Cut::shares) {
    return share_offset(segment, p + 1) - share_offset(segment, p);
  }
  const std::size_t begin = segment * segment_bytes_;
  const std::size_t bytes = side.bytes(p);
  return begin >= bytes ? 0 : std::min(segment_bytes_, bytes - begin);
}

std::byte* DirectRun::user(const PieceMap& side, int p, std::size_t segment) const {
  return plan_->cut == Cut::shares
             ? side.block(0) + segment * segment_bytes_ + share_offset(segment, p)
             : side.block(p) + segment * segment_bytes_;
}

std::byte* DirectRun::slot(int seat, int p, std::size_t segment) const {
  std::size_t offset = 0;
  if (plan_->cut == Cut::shares) {
    offset = share_offset(segment, p);
  } else if (plan_->cut == Cut::blocks) {
    offset = static_cast<std::size_t>(p) * sub_stride_;
  }
  if (plan_->protocol != Protocol::staged) {
    return call_slot(seat).data + prefix_ + offset;
  }
  const std::size_t index = (state_->cursor + segment) % slots_;
  return team_->area(seat).ring + index * state_->slot_bytes + offset;
}

void DirectRun::copy_in(const DirectStep& step) {
  const std::size_t segment = segment_of(step);
  const int pieces = plan_->cut == Cut::whole ? 1 : seat_.size;
  for (int p = 0; p < pieces; ++p) {
    if (pieces > 1 && step.pieces == DirectStep::Pieces::others && p == seat_.rank) {
      continue;
    }
    const std::size_t bytes = piece_bytes(in_, p, segment);
    if (bytes == 0) {
      continue;
    }
    if (plan_->protocol == Protocol::staged) {
      state_->slot_store.copy(slot(seat_.rank, p, segment), user(in_, p, segment), bytes);
    } else {
      std::memcpy(slot(seat_.rank, p, segment), user(in_, p, segment), bytes);
    }
  }
}

void DirectRun::copy_self(const DirectStep& step) {
  const std::size_t segment = segment_of(step);
  const int from = piece(step.from, seat_.rank);
  const std::byte* source = user(in_, from, segment);
  std::byte* target = user(out_, piece(step.to, seat_.rank), segment);
  const std::size_t bytes = piece_bytes(in_, from, segment);
  if (source != target && bytes != 0) {
    copy_bytes(target, source, bytes, output_store_);
  }
}

bool DirectRun::wait_peers(const DirectStep& step) {
  for (const int count = peer_count(step); peer_ < count; ++peer_) {
    if (!await_post(step, peer_at(step, peer_))) {
      return false;
    }
  }
  peer_ = 0;
  return true;
}

bool DirectRun::reduce(const DirectStep& step) {
  const std::size_t segment = segment_of(step);
  const int p = piece(step.from, seat_.rank);
  const std::size_t bytes = piece_bytes(in_, p, segment);
  if (bytes == 0) {
    return true;
  }
  sources_.resize(static_cast<std::size_t>(seat_.size));
  for (int k = 0; k < seat_.size; ++k) {
    sources_[static_cast<std::size_t>(k)] =
        k == seat_.rank ? user(in_, p, segment) : slot(k, p, segment);
  }
  ReduceArgs args{.sources = sources_.data(),
                  .count = seat_.size,
                  .elements = bytes / element_bytes_,
                  .divisor = call_->divisor};
  if (prefix_ != 0) {
    factors_.resize(sources_.size());
    for (int k = 0; k < seat_.size; ++k) {
      std::memcpy(&factors_[static_cast<std::size_t>(k)], call_slot(k).data, kFactorBytes);
    }
    args.factors = factors_.data();
  }
  std::byte* own = slot(seat_.rank, p, segment);
  const StoreType slot_store = state_->slot_store.for_result(bytes);
  if (step.to_output) {
    args.out = user(out_, piece(step.to, seat_.rank), segment);
    args.also = step.to_slot ? own : nullptr;
    args.also_store = slot_store;
  } else {
    args.out = own;
    args.out_store = slot_store;
  }
  kernel_(args);
  return true;
}

bool DirectRun::fetch(const DirectStep& step) {
  for (const int count = peer_count(step); peer_ < count; ++peer_) {
    const int seat = peer_at(step, peer_);
    if (!await_post(step, seat)) {
      return false;
    }
    fetch_from(step, seat);
  }
  peer_ = 0;
  return true;
}

void DirectRun::fetch_from(const DirectStep& step, int seat) {
  const std::size_t segment = segment_of(step);
  const int to = piece(step.to, seat);
  const std::size_t bytes = piece_bytes(out_, to, segment);
  if (bytes != 0) {
    // An in-place result is read again at once or was just read: streaming would only evict it.
    const StoreType store = plan_->cut == Cut::shares ? StoreType::cached : output_store_;
    copy_bytes(user(out_, to, segment), slot(seat, piece(step.from, seat), segment), bytes, store);
  }
}

std::size_t DirectRun::bytes_done() const { return std::min(total_, iteration_ * segment_bytes_); }

}  // namespace tutti
