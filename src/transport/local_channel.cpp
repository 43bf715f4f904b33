#include "transport/local_channel.hpp"

#include "base/limits.hpp"

#include <cstring>

namespace tutti {
namespace {

void store(RecvOp& op, const std::byte* data, Events& events) {
  if (op.bytes != 0) {
    std::memcpy(op.data, data, op.bytes);
  }
  op.moved = op.bytes;
  complete(op, TransferState::done, events);
}

}  // namespace

void LocalChannel::send(SendOp& op, Events& events) {
  if (RecvOp* receive = table_.take_posted(rank_, op.key)) {
    if (admit(*receive, op.stamp, op.bytes, events)) {
      store(*receive, op.data, events);
    }
    complete(op, TransferState::done, events);
    return;
  }
  Arrival& arrival = arrivals_.get();
  arrival.peer = rank_;
  arrival.key = op.key;
  arrival.stamp = op.stamp;
  arrival.bytes = op.bytes;
  const std::uint64_t cost = op.bytes + limits::kEagerOverheadBytes;
  if (op.bytes <= limits::kEagerBytes && held_ + cost <= limits::kEagerCreditBytes) {
    held_ += cost;
    arrival.buffer = buffers_.get(op.bytes);
    if (op.bytes != 0) {
      std::memcpy(arrival.buffer.get(), op.data, op.bytes);
    }
    table_.add(arrival);
    complete(op, TransferState::done, events);
    return;
  }
  arrival.form = Arrival::Form::local;
  arrival.send = &op;
  arrival.chain = waiting_;
  waiting_ = &arrival;
  table_.add(arrival);
}

void LocalChannel::recv(RecvOp& op, Events& events) {
  if (Arrival* arrival = table_.take_or_post(op)) {
    deliver(*arrival, op, events);
  }
}

void LocalChannel::deliver(Arrival& arrival, RecvOp& op, Events& events) {
  SendOp* const send = arrival.send;
  if (admit(op, arrival.stamp, arrival.bytes, events)) {
    store(op, send != nullptr ? send->data : arrival.buffer.get(), events);
  }
  release(arrival);
  if (send != nullptr) {
    complete(*send, TransferState::done, events);
  }
}

void LocalChannel::release(Arrival& arrival) {
  if (arrival.form == Arrival::Form::local) {
    Arrival** at = &waiting_;
    while (*at != &arrival) {
      at = &(*at)->chain;
    }
    *at = arrival.chain;
  } else {
    held_ -= arrival.bytes + limits::kEagerOverheadBytes;
    buffers_.put(std::move(arrival.buffer), arrival.bytes);
  }
  arrivals_.put(arrival);
}

bool LocalChannel::cancel(SendOp& op) {
  for (Arrival* arrival = waiting_; arrival != nullptr; arrival = arrival->chain) {
    if (arrival->send == &op) {
      table_.remove(*arrival);
      release(*arrival);
      return true;
    }
  }
  return false;
}

void LocalChannel::forget(std::uint64_t group, Events& events) {
  Arrival* arrival = table_.forget(group, rank_);
  while (arrival != nullptr) {
    Arrival* const next = arrival->next;
    SendOp* const send = arrival->send;
    release(*arrival);
    if (send != nullptr) {
      complete(*send, TransferState::done, events);
    }
    arrival = next;
  }
}

}  // namespace tutti
