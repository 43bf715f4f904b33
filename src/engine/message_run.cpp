#include "engine/message_run.hpp"

#include "base/ensure.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

using Kind = Step::Kind;

/// avg and premul_sum are sums between `load` and `finish`.
ReduceOp combining_op(ReduceOp op) {
  return op == ReduceOp::avg || op == ReduceOp::premul_sum ? ReduceOp::sum : op;
}

/// Cuts one contiguous tensor into `size` shares whose borders lie on whole elements.
void cut_into_shares(const BlockView& whole, std::size_t element_bytes, int size,
                     std::vector<BlockView>& shares) {
  const auto count = static_cast<std::size_t>(size);
  const std::size_t share = (whole.elements + count - 1) / count;
  for (std::size_t p = 0; p < count; ++p) {
    const std::size_t begin = std::min(whole.elements, p * share);
    const std::size_t end = std::min(whole.elements, begin + share);
    shares.push_back({whole.data + begin * element_bytes, end - begin});
  }
}

/// Lays blocks of the given sizes into `memory`, one behind the other.
template <class ElementsOf>
void lay_out(Scratch& memory, int size, std::size_t element_bytes, ElementsOf elements_of,
             std::vector<BlockView>& blocks) {
  std::size_t total = 0;
  for (int p = 0; p < size; ++p) {
    total += elements_of(p);
  }
  std::byte* data = memory.take(total * element_bytes);
  for (int p = 0; p < size; ++p) {
    blocks.push_back({data, elements_of(p)});
    data += elements_of(p) * element_bytes;
  }
}

bool names(const Plan& plan, Buffer buffer) {
  return std::any_of(plan.rounds.begin(), plan.rounds.end(), [&](const Round& round) {
    return std::any_of(round.steps.begin(), round.steps.end(), [&](const Step& step) {
      return step.blocks.buffer == buffer || step.to.buffer == buffer;
    });
  });
}

bool is_transfer(Kind kind) {
  return kind == Kind::send || kind == Kind::recv || kind == Kind::recv_reduce;
}

}  // namespace

void MessageRun::start(Transport& transport, const Plan& plan, const Call& call, Seat seat,
                       const std::vector<int>& members, MessageKey key) {
  transport_ = &transport;
  plan_ = &plan;
  call_ = &call;
  seat_ = seat;
  members_ = &members;
  key_ = key;
  const Spec& row = spec(call.op);
  cuts_ = row.cuts;
  combine_ =
      row.reduces ? reduce_kernel(accumulator(call.dtype), combining_op(call.reduce)) : nullptr;
  failure_ = {};
  round_ = 0;
  started_round_ = false;
  send_count_ = receive_count_ = sends_finished_ = 0;
  receives_posted_ = receives_finished_ = 0;
  bytes_done_ = bytes_total_ = 0;
  lay_out_buffers();
}

void MessageRun::lay_out_buffers() {
  const std::size_t bytes = element_bytes(call_->dtype);
  in_.clear();
  out_.clear();
  acc_.clear();
  hold_.clear();
  if (cuts_) {
    if (!call_->in.empty()) {
      cut_into_shares(call_->in[0], bytes, seat_.size, in_);
    }
    if (!call_->out.empty()) {
      cut_into_shares(call_->out[0], bytes, seat_.size, out_);
    }
  } else {
    in_.assign(call_->in.begin(), call_->in.end());
    out_.assign(call_->out.begin(), call_->out.end());
  }
  // The sizes of all ranks' shares, from whichever side has them.
  const std::vector<BlockView>& all = in_.size() >= out_.size() ? in_ : out_;
  const auto share = [&](int p) {
    return all.size() > 1 ? all[static_cast<std::size_t>(p)].elements
                          : (all.empty() ? 0 : all[0].elements);
  };
  if (names(*plan_, Buffer::acc)) {
    // Partial results may lie in the output itself unless they are wider than it.
    const bool in_output = cuts_ && !out_.empty() && accumulator(call_->dtype) == call_->dtype;
    if (in_output) {
      acc_ = out_;
    } else {
      lay_out(acc_memory_, seat_.size, element_bytes(accumulator(call_->dtype)), share, acc_);
    }
  }
  if (names(*plan_, Buffer::hold)) {
    const bool own_size = spec(call_->op).reduces;
    lay_out(
        hold_memory_, seat_.size, bytes, [&](int p) { return share(own_size ? seat_.rank : p); },
        hold_);
  }
}

const BlockView& MessageRun::block(Buffer buffer, int index) const {
  const std::vector<BlockView>* blocks = &in_;
  switch (buffer) {
    case Buffer::in:
      break;
    case Buffer::out:
      blocks = &out_;
      break;
    case Buffer::acc:
      blocks = &acc_;
      break;
    case Buffer::hold:
      blocks = &hold_;
      break;
  }
  ensure(!blocks->empty(), "a plan names only buffers that this rank has");
  return (*blocks)[static_cast<std::size_t>(index) % blocks->size()];
}

std::size_t MessageRun::bytes_per_element(Buffer buffer) const {
  return element_bytes(buffer == Buffer::acc ? accumulator(call_->dtype) : call_->dtype);
}

void MessageRun::stretches(const Range& range, std::vector<Stretch>& out) const {
  out.clear();
  for (int i = 0; i < range.count; ++i) {
    const int index = range.first + i;
    const BlockView& view = block(range.buffer, index);
    const bool wraps = index % seat_.size == 0;
    if (cuts_ && !out.empty() && !wraps) {
      out.back().elements += view.elements;  // shares of one tensor lie one behind the other
    } else {
      out.push_back({view.data, view.elements});
    }
  }
  if (range.count == 0) {
    out.push_back({});  // a signal: a message without data
  }
}

bool MessageRun::advance() {
  while (round_ < plan_->rounds.size()) {
    if (!started_round_) {
      begin_round(plan_->rounds[round_]);
      started_round_ = true;
    }
    const bool sent = sends_done();
    const bool received = receives_done();
    if (failure_.kind != RunFailure::Kind::none) {
      cancel();
      return true;
    }
    if (!sent || !received) {
      return false;
    }
    started_round_ = false;
    ++round_;
  }
  return true;
}

void MessageRun::begin_round(const Round& round) {
  send_count_ = receive_count_ = sends_finished_ = 0;
  receives_posted_ = receives_finished_ = 0;
  incoming_used_ = 0;
  std::size_t incoming = 0;
  std::size_t receives = 0;
  exchange_ = false;
  for (const Step& step : round.steps) {
    receives += step.kind == Kind::recv || step.kind == Kind::recv_reduce ? 1 : 0;
    if (!is_transfer(step.kind)) {
      run_local(step);
    } else if (step.kind == Kind::recv_reduce) {
      exchange_ = is_exchange(round, step) || exchange_;
      stretches(step.blocks, pieces_);
      for (const Stretch& piece : pieces_) {
        incoming += piece.elements * bytes_per_element(step.blocks.buffer);
      }
    }
  }
  // An exchange combines only after its sends, which may need the peer to receive everything; and
  // a second receive could wait for a peer that waits for the first. Either may then not wait for
  // a place.
  const bool windowed = receives == 1 && !exchange_ && incoming > kWindowBytes;
  window_ = windowed ? kWindowBytes / kMessageBytes : 0;
  incoming_memory_.take(windowed ? kWindowBytes : incoming);
  for (const Step& step : round.steps) {
    if (step.kind == Kind::recv || step.kind == Kind::recv_reduce) {
      list_receives(step);
    }
  }
  post_receives();
  for (const Step& step : round.steps) {
    if (step.kind == Kind::send) {
      post_sends(step);
    }
  }
}

/// Whether the round also sends what `receive` combines. By address: acc may be out.
bool MessageRun::is_exchange(const Round& round, const Step& receive) {
  stretches(receive.blocks, target_pieces_);
  const std::size_t target_bytes = bytes_per_element(receive.blocks.buffer);
  for (const Step& step : round.steps) {
    if (step.kind != Kind::send) {
      continue;
    }
    stretches(step.blocks, pieces_);
    const std::size_t bytes = bytes_per_element(step.blocks.buffer);
    for (const Stretch& sent : pieces_) {
      for (const Stretch& target : target_pieces_) {
        if (sent.data < target.data + target.elements * target_bytes &&
            target.data < sent.data + sent.elements * bytes) {
          return true;
        }
      }
    }
  }
  return false;
}

void MessageRun::run_local(const Step& step) {
  if (step.kind == Kind::reduce_held) {
    reduce_held(step);
    return;
  }
  stretches(step.blocks, pieces_);
  stretches(step.to, target_pieces_);
  ensure(pieces_.size() == target_pieces_.size(), "a local step's ranges have the same cut");
  const bool scaled = call_->reduce == ReduceOp::premul_sum;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Stretch& from = pieces_[i];
    const Stretch& to = target_pieces_[i];
    if (from.elements == 0) {
      continue;
    }
    if (step.kind == Kind::load) {
      load_accumulator(call_->dtype, from.data, to.data, from.elements,
                       scaled ? &call_->factor : nullptr);
    } else if (step.kind == Kind::finish) {
      finish_accumulator(call_->dtype, from.data, to.data, from.elements, call_->divisor);
    } else if (from.data != to.data) {
      std::memmove(to.data, from.data, from.elements * bytes_per_element(step.blocks.buffer));
    }
  }
}

void MessageRun::reduce_held(const Step& step) {
  const BlockView& own = block(step.blocks.buffer, step.blocks.first);
  const BlockView& to = block(step.to.buffer, step.to.first);
  std::vector<const void*> sources;
  for (int k = 0; k < seat_.size; ++k) {
    sources.push_back(k == seat_.rank ? own.data : block(Buffer::hold, k).data);
  }
  reduce_kernel(call_->dtype, call_->reduce)({.sources = sources.data(),
                                              .count = seat_.size,
                                              .out = to.data,
                                              .elements = own.elements,
                                              .divisor = call_->divisor});
}

void MessageRun::list_receives(const Step& step) {
  stretches(step.blocks, pieces_);
  const std::size_t bytes_each = bytes_per_element(step.blocks.buffer);
  const bool reduces = step.kind == Kind::recv_reduce;
  for (const Stretch& piece : pieces_) {
    std::size_t done = 0;
    const std::size_t total = piece.elements * bytes_each;
    do {
      const std::size_t bytes = std::min(kMessageBytes, total - done);
      if (receive_count_ == receives_.size()) {
        receives_.emplace_back();
      }
      const std::size_t place =
          window_ != 0 ? receive_count_ % window_ * kMessageBytes : incoming_used_;
      Incoming& incoming = receives_[receive_count_++];
      incoming.target = reduces ? piece.data + done : nullptr;
      incoming.elements = bytes / bytes_each;
      incoming.seat = step.peer;
      incoming.combined = !reduces;
      incoming.op.peer = (*members_)[static_cast<std::size_t>(step.peer)];
      incoming.op.key = key_;
      incoming.op.stamp = call_->fingerprint;
      incoming.op.data = reduces ? incoming_memory_.take(0) + place : piece.data + done;
      incoming.op.bytes = bytes;
      incoming.op.state.store(TransferState::idle, std::memory_order_relaxed);
      incoming_used_ += reduces ? bytes : 0;
      bytes_total_ += bytes;
      done += bytes;
    } while (done < total);
  }
}

/// Posts, in order, the receives that have a place.
void MessageRun::post_receives() {
  while (receives_posted_ < receive_count_ &&
         (window_ == 0 || receives_posted_ < receives_finished_ + window_)) {
    transport_->recv(receives_[receives_posted_++].op);
  }
}

void MessageRun::post_sends(const Step& step) {
  stretches(step.blocks, pieces_);
  const std::size_t bytes_each = bytes_per_element(step.blocks.buffer);
  for (const Stretch& piece : pieces_) {
    std::size_t done = 0;
    const std::size_t total = piece.elements * bytes_each;
    do {
      const std::size_t bytes = std::min(kMessageBytes, total - done);
      if (send_count_ == sends_.size()) {
        sends_.emplace_back();
      }
      SendOp& op = sends_[send_count_++];
      op.peer = (*members_)[static_cast<std::size_t>(step.peer)];
      op.key = key_;
      op.stamp = call_->fingerprint;
      op.data = piece.data + done;
      op.bytes = bytes;
      op.state.store(TransferState::idle, std::memory_order_relaxed);
      done += bytes;
      transport_->send(op);
    } while (done < total);
  }
}

bool MessageRun::sends_done() {
  for (; sends_finished_ < send_count_; ++sends_finished_) {
    const SendOp& op = sends_[sends_finished_];
    const TransferState state = op.state.load(std::memory_order_acquire);
    if (state == TransferState::active) {
      return false;
    }
    if (state == TransferState::lost) {
      const auto member = std::find(members_->begin(), members_->end(), op.peer);
      failure_ = {.kind = RunFailure::Kind::lost,
                  .peer = static_cast<int>(member - members_->begin())};
      return false;
    }
  }
  return true;
}

bool MessageRun::inspect(const Incoming& incoming, TransferState state) {
  if (state == TransferState::lost) {
    failure_ = {.kind = RunFailure::Kind::lost, .peer = incoming.seat};
    return false;
  }
  if (state == TransferState::mismatch) {
    const bool stamp = incoming.op.their_stamp != incoming.op.stamp;
    failure_ = {.kind = stamp ? RunFailure::Kind::mismatch : RunFailure::Kind::bytes,
                .peer = incoming.seat,
                .theirs = incoming.op.their_stamp,
                .expected_bytes = incoming.op.bytes,
                .actual_bytes = incoming.op.their_bytes};
    return false;
  }
  return true;
}

bool MessageRun::receives_done() {
  // Blocks that are still being sent may not change (see plan.hpp).
  const bool may_combine = !exchange_ || sends_finished_ == send_count_;
  for (std::size_t i = receives_finished_; i < receives_posted_; ++i) {
    Incoming& incoming = receives_[i];
    const TransferState state = incoming.op.state.load(std::memory_order_acquire);
    if (state == TransferState::active) {
      continue;
    }
    if (state != TransferState::idle) {  // else it was counted already
      if (!inspect(incoming, state)) {
        return false;
      }
      if (!incoming.combined && !may_combine) {
        continue;
      }
      combine(incoming);
      bytes_done_ += incoming.op.bytes;
      incoming.op.state.store(TransferState::idle, std::memory_order_relaxed);
    }
    if (i == receives_finished_) {
      ++receives_finished_;
      post_receives();
    }
  }
  return receives_finished_ == receive_count_;
}

void MessageRun::combine(Incoming& incoming) {
  if (incoming.combined || incoming.elements == 0) {
    return;
  }
  incoming.combined = true;
  const bool own_first = incoming.seat > seat_.rank;
  const void* sources[2] = {own_first ? incoming.target : incoming.op.data,
                            own_first ? incoming.op.data : incoming.target};
  combine_({.sources = sources, .count = 2, .out = incoming.target, .elements = incoming.elements});
}

void MessageRun::cancel() {
  if (transport_ == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < send_count_; ++i) {
    transport_->cancel(sends_[i]);
  }
  for (std::size_t i = 0; i < receives_posted_; ++i) {
    transport_->cancel(receives_[i].op);
  }
  send_count_ = receive_count_ = sends_finished_ = 0;
  receives_posted_ = receives_finished_ = 0;
}

std::vector<int> MessageRun::waiting_for() const {
  std::vector<int> seats;
  for (std::size_t i = sends_finished_; i < send_count_; ++i) {
    if (sends_[i].state.load(std::memory_order_acquire) == TransferState::active) {
      const auto member = std::find(members_->begin(), members_->end(), sends_[i].peer);
      seats.push_back(static_cast<int>(member - members_->begin()));
    }
  }
  for (std::size_t i = receives_finished_; i < receives_posted_; ++i) {
    if (receives_[i].op.state.load(std::memory_order_acquire) == TransferState::active) {
      seats.push_back(receives_[i].seat);
    }
  }
  std::sort(seats.begin(), seats.end());
  seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
  return seats;
}

}  // namespace tutti
