#include "transport/channel.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"

#include <utility>

namespace tutti {
namespace {

// A read from a socket costs a system call: fetch the following headers and small messages with
// it. From shared memory a read costs a copy: fetch just the next header.
constexpr std::size_t kSocketStagingBytes = std::size_t{8} << 10;
// What a dead peer may have left behind is finite; this is more than any socket buffers.
constexpr int kMaxDrainRounds = 1024;

}  // namespace

Channel::Channel(int peer, MatchTable& table)
    : peer_(peer), table_(table), inbox_(peer, table, outbox_) {}

void Channel::attach(std::unique_ptr<Link> link, Events& events) {
  ensure(link_ == nullptr, "second link to one peer");
  link_ = std::move(link);
  inbox_.set_staging_bytes(link_->fd() >= 0 ? kSocketStagingBytes : kFrameHeaderBytes);
  attached_.store(true, std::memory_order_release);
  flush(events);
}

void Channel::flush(Events& events) {
  if (link_ == nullptr || failed()) {
    return;
  }
  outbox_.flush(*link_, events);
  const bool wants = outbox_.has_output();
  // Who sleeps now has not armed for room; a socket's epoll set tells by itself.
  events.stuck |= wants && !wants_write_ && link_->fd() < 0;
  wants_write_ = wants;
}

void Channel::send(SendOp& op, Events& events) {
  if (failed()) {
    complete(op, TransferState::lost, events);
    return;
  }
  if (link_ == nullptr || !outbox_.send_at_once(op, *link_, events)) {
    outbox_.push(op);
  }
  if (outbox_.has_output()) {
    flush(events);
  }
}

void Channel::recv(RecvOp& op, Events& events) {
  if (!failed() && recv_arrived(op, events)) {
    return;
  }
  if (Arrival* arrival = failed() ? table_.take(op, peer_) : table_.take_or_post(op)) {
    deliver(*arrival, op, events);
  } else if (failed()) {
    complete(op, TransferState::lost, events);
  } else if (has_ring() && link_->readable()) {
    pump_for(op, false, events);
  }
}

bool Channel::recv_arrived(RecvOp& op, Events& events) {
  if (failed() || !table_.idle()) {
    return false;
  }
  if (has_ring() && link_->readable()) {
    pump_for(op, true, events);
  }
  return op.source >= 0;  // then it has also ended if the link broke meanwhile
}

void Channel::pump_for(RecvOp& op, bool unposted, Events& events) {
  if (const std::optional<Failure> failure = inbox_.pump_for(op, unposted, *link_, events)) {
    fail(*failure, events);
  } else if (outbox_.has_output()) {
    flush(events);
  }
}

void Channel::deliver(Arrival& arrival, RecvOp& op, Events& events) {
  inbox_.deliver(arrival, op, events);
  flush(events);
}

bool Channel::cancel(SendOp& op, Events& events) {
  const bool found = outbox_.cancel(op);
  flush(events);
  return found;
}

void Channel::forget(std::uint64_t group, Events& events) {
  inbox_.forget(group);
  flush(events);
}

void Channel::send_fault(std::uint64_t group, const Failure& failure, Events& events) {
  if (!failed()) {
    outbox_.push_fault(group, failure);
    flush(events);
  }
}

void Channel::send_probe(const Transport::Probe& probe, Events& events) {
  if (!failed()) {
    outbox_.push_probe(probe);
    flush(events);
  }
}

void Channel::send_bye(Events& events) {
  if (link_ != nullptr && !failed()) {
    outbox_.push_bye();
    flush(events);
  }
}

void Channel::pump(Events& events) {
  if (link_ == nullptr || failed()) {
    return;
  }
  if (const std::optional<Failure> failure = inbox_.pump(*link_, events)) {
    fail(*failure, events);
  } else {
    flush(events);
  }
}

void Channel::peer_died(const Failure& failure, Events& events) {
  for (int round = 0; round < kMaxDrainRounds && link_ != nullptr && !failed(); ++round) {
    events.moved = false;
    if (inbox_.pump(*link_, events) || !events.moved) {
      break;
    }
  }
  events.moved = true;
  if (!failed()) {
    fail(failure, events);
  }
}

void Channel::fail(const Failure& failure, Events& events) {
  failure_ = failure;
  // Before the ops end: who sees a lost op must find the reason.
  failed_.store(true, std::memory_order_release);
  wants_write_ = false;
  outbox_.lose(events);
  inbox_.lose(events);
}

bool Channel::arm() { return link_ == nullptr || failed() || link_->arm(outbox_.has_output()); }

std::size_t Channel::pending() const {
  if (failed()) {
    return 0;
  }
  return outbox_.pending() + (link_ != nullptr && link_->undelivered() != 0 ? 1 : 0);
}

}  // namespace tutti
