#include "transport/inbox.hpp"

#include "base/limits.hpp"

#include <tutti/options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti {

std::optional<Failure> Inbox::pump_for(RecvOp& op, bool unposted, Link& link, Events& events) {
  unposted_ = unposted ? &op : nullptr;
  std::optional<Failure> failure = read(link, events, &op);
  unposted_ = nullptr;
  return failure;
}

/// `until`: a receive of the calling thread; stops once its message is in. Nothing is read ahead
/// then: what is not in the link any more does not make it readable, and would be forgotten.
std::optional<Failure> Inbox::read(Link& link, Events& events, const RecvOp* until) {
  std::size_t total = 0;
  bool drained = false;
  while (true) {
    if (const Trouble trouble = digest(events)) {
      return Failure{.kind = ErrorKind::internal,
                     .text = fmt::format("the peer broke the protocol over {}: {}", link.describe(),
                                         *trouble)};
    }
    if (peer_left_) {
      return Failure{.kind = ErrorKind::peer_lost,
                     .text = fmt::format("the peer left (it closed {})", link.describe())};
    }
    if (total >= limits::kPollBytes || drained) {
      return std::nullopt;
    }
    if (until != nullptr && !open_ && until->source >= 0) {
      return std::nullopt;
    }
    std::size_t asked = 0;
    const std::size_t bytes = fill(link, until == nullptr, asked);
    if (bytes == 0) {
      return link.failure();
    }
    events.moved = true;
    total += bytes;
    // A socket that gave less than asked for is empty: another read would cost a system call to
    // say so. The end of a stream shows at the next pump.
    drained = bytes < asked && link.fd() >= 0;
  }
}

/// One read: the rest of the payload, then the staging area. digest() has left at most a part of a
/// header there, and nothing while a payload is being read.
std::size_t Inbox::fill(Link& link, bool ahead, std::size_t& asked) {
  if (staged_begin_ != 0) {
    std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
    staged_end_ -= staged_begin_;
    staged_begin_ = 0;
  }
  std::array<std::span<std::byte>, 2> parts;
  std::size_t count = 0;
  if (rest_ != 0) {
    parts[count++] = target_ != nullptr ? std::span(target_, rest_)
                                        : std::span(scrap_).first(std::min(rest_, scrap_.size()));
  }
  const std::size_t payload = count != 0 ? parts[0].size() : 0;
  if (payload == rest_ && (ahead || payload == 0)) {
    parts[count++] = std::span(staging_).subspan(staged_end_);
  }
  asked = parts[0].size() + (count == 2 ? parts[1].size() : 0);
  const std::size_t bytes = link.read(std::span(parts.data(), count));
  const std::size_t of_payload = std::min(bytes, payload);
  rest_ -= of_payload;
  target_ = target_ != nullptr ? target_ + of_payload : nullptr;
  staged_end_ += bytes - of_payload;
  return bytes;
}

/// Handles what lies in the staging area, and a payload that fill() completed.
Inbox::Trouble Inbox::digest(Events& events) {
  while (true) {
    const std::size_t staged = staged_end_ - staged_begin_;
    if (open_) {
      const std::size_t bytes = std::min(rest_, staged);
      if (bytes != 0 && target_ != nullptr) {
        std::memcpy(target_, staging_.data() + staged_begin_, bytes);
        target_ += bytes;
      }
      rest_ -= bytes;
      staged_begin_ += bytes;
      if (rest_ != 0) {
        return std::nullopt;
      }
      open_ = false;
      finish(events);
    } else if (staged >= kFrameHeaderBytes && !peer_left_) {
      Trouble trouble = decode(staging_.data() + staged_begin_, frame_);
      staged_begin_ += kFrameHeaderBytes;
      if (!trouble) {
        trouble = start(events);
      }
      if (trouble) {
        return trouble;
      }
    } else {
      return std::nullopt;
    }
  }
}

Inbox::Trouble Inbox::start(Events& events) {
  open_ = true;
  rest_ = frame_.payload_bytes;
  target_ = nullptr;
  op_ = nullptr;
  arrival_ = nullptr;
  switch (frame_.kind) {
    case FrameKind::data:
      return start_data(events);
    case FrameKind::announce:
      return start_announce(events);
    case FrameKind::chunk:
      return start_chunk();
    case FrameKind::clear:
      return outbox_.cleared(frame_.id, events);
    case FrameKind::drop:
      return outbox_.dropped(frame_.id, events);
    case FrameKind::credit:
      return outbox_.credited(frame_.bytes);
    case FrameKind::withdraw:
      return withdraw(events);
    case FrameKind::fault:
      fault_text_.resize(frame_.payload_bytes);
      target_ = reinterpret_cast<std::byte*>(fault_text_.data());
      return std::nullopt;
    case FrameKind::probe:
      events.probes.push_back(
          {.peer = peer_,
           .probe = {.call = frame_.key, .stamp = frame_.stamp, .history = frame_.id}});
      return std::nullopt;
    case FrameKind::bye:
      peer_left_ = true;
      return std::nullopt;
  }
  return "unknown frame";
}

/// The receive that takes the message of frame_. `keep_place`: it may have to be posted again.
RecvOp* Inbox::take_receive(bool keep_place) {
  if (unposted_ == nullptr || unposted_->key != frame_.key) {
    return table_.take_posted(peer_, frame_.key);
  }
  RecvOp* const op = unposted_;
  unposted_ = nullptr;
  op->source = peer_;
  if (keep_place) {
    table_.number(*op);
  }
  return op;
}

Inbox::Trouble Inbox::start_data(Events& events) {
  held_ += frame_.bytes + limits::kEagerOverheadBytes;
  if (held_ > limits::kEagerCreditBytes) {
    return fmt::format("small messages of {} bytes unread, at most {} allowed", held_,
                       limits::kEagerCreditBytes);
  }
  RecvOp* op = take_receive(false);
  if (op == nullptr) {
    arrival_ = &arrivals_.get();
    arrival_->peer = peer_;
    arrival_->key = frame_.key;
    arrival_->stamp = frame_.stamp;
    arrival_->bytes = frame_.bytes;
    arrival_->buffer = buffers_.get(frame_.bytes);
    target_ = arrival_->buffer.get();
  } else if (admit(*op, frame_.stamp, frame_.bytes, events)) {
    op_ = op;
    target_ = op->data;
  }
  return std::nullopt;
}

void Inbox::finish_data(Events& events) {
  if (arrival_ == nullptr) {
    give_credit(frame_.bytes);
    if (op_ != nullptr) {
      op_->moved = op_->bytes;
      complete(*op_, TransferState::done, events);
    }
    return;
  }
  // Its receive may have come while the bytes did.
  if (RecvOp* op = take_receive(false)) {
    deliver(*arrival_, *op, events);
  } else {
    table_.add(*arrival_);
  }
}

Inbox::Trouble Inbox::start_announce(Events& events) {
  if (frame_.id != next_id_) {
    return fmt::format("message {} announced, expected {}", frame_.id, next_id_);
  }
  if (announced_.size() >= limits::kMaxAnnounced) {
    return fmt::format("more than {} messages announced and not moved", limits::kMaxAnnounced);
  }
  ++next_id_;
  Arrival& arrival = arrivals_.get();
  arrival.form = Arrival::Form::announced;
  arrival.peer = peer_;
  arrival.key = frame_.key;
  arrival.stamp = frame_.stamp;
  arrival.bytes = frame_.bytes;
  arrival.id = frame_.id;
  announced_.insert(arrival);
  if (RecvOp* op = take_receive(true)) {
    accept(arrival, *op, events);
  } else {
    table_.add(arrival);
  }
  return std::nullopt;
}

/// An announced message meets its receive.
void Inbox::accept(Arrival& arrival, RecvOp& op, Events& events) {
  if (!admit(op, arrival.stamp, arrival.bytes, events)) {
    outbox_.push_drop(arrival.id);
    release(arrival);
    return;
  }
  outbox_.push_clear(arrival.id);
  if (arrival.bytes == 0) {
    release(arrival);
    complete(op, TransferState::done, events);
    return;
  }
  op.moved = 0;
  arrival.op = &op;
}

Inbox::Trouble Inbox::start_chunk() {
  Arrival* arrival = announced_.find(frame_.id);
  if (arrival == nullptr || arrival->waiting) {
    return fmt::format("payload for message {}, which was not asked for", frame_.id);
  }
  if (frame_.bytes != arrival->moved || frame_.payload_bytes > arrival->bytes - arrival->moved) {
    return fmt::format("payload of {} bytes at {} for message {}, expected at {} of {}",
                       frame_.payload_bytes, frame_.bytes, frame_.id, arrival->moved,
                       arrival->bytes);
  }
  arrival_ = arrival;
  target_ = arrival->op != nullptr ? arrival->op->data + arrival->moved : nullptr;
  return std::nullopt;
}

void Inbox::finish_chunk(Events& events) {
  Arrival& arrival = *arrival_;
  arrival.moved += frame_.payload_bytes;
  RecvOp* const op = arrival.op;
  if (op != nullptr) {
    op->moved = arrival.moved;
  }
  if (arrival.moved < arrival.bytes) {
    return;
  }
  release(arrival);
  if (op != nullptr) {
    complete(*op, TransferState::done, events);
  }
}

Inbox::Trouble Inbox::withdraw(Events& events) {
  Arrival* arrival = announced_.find(frame_.id);
  if (arrival == nullptr) {
    if (frame_.id == 0 || frame_.id >= next_id_) {
      return fmt::format("message {} withdrawn before it was announced", frame_.id);
    }
    return std::nullopt;  // dropped here meanwhile
  }
  if (table_.remove(*arrival)) {
    release(*arrival);
    return std::nullopt;
  }
  RecvOp* const op = arrival->op;
  release(*arrival);
  if (op == nullptr) {
    return std::nullopt;
  }
  op->moved = 0;
  if (op->peer == kAnySource) {
    events.unsettled.push_back(op->key);
    table_.post_again(*op);
  } else if (Arrival* other = table_.take(*op, peer_)) {
    deliver(*other, *op, events);
  } else {
    table_.post_again(*op);
  }
  return std::nullopt;
}

void Inbox::finish(Events& events) {
  switch (frame_.kind) {
    case FrameKind::data:
      finish_data(events);
      break;
    case FrameKind::chunk:
      finish_chunk(events);
      break;
    case FrameKind::fault:
      finish_fault(events);
      break;
    default:
      break;  // done with the header
  }
  op_ = nullptr;
  arrival_ = nullptr;
  target_ = nullptr;
}

void Inbox::finish_fault(Events& events) {
  events.faults.push_back({.peer = peer_,
                           .group = frame_.key.group,
                           .failure = {.kind = static_cast<ErrorKind>(frame_.stamp),
                                       .text = fault_text_,
                                       .peer = static_cast<int>(frame_.id) - 1}});
}

void Inbox::deliver(Arrival& arrival, RecvOp& op, Events& events) {
  if (arrival.form == Arrival::Form::announced) {
    accept(arrival, op, events);
    return;
  }
  const bool fits = admit(op, arrival.stamp, arrival.bytes, events);
  if (fits && arrival.bytes != 0) {
    std::memcpy(op.data, arrival.buffer.get(), arrival.bytes);
  }
  give_credit(arrival.bytes);
  release(arrival);
  if (fits) {
    op.moved = op.bytes;
    complete(op, TransferState::done, events);
  }
}

void Inbox::give_credit(std::uint64_t bytes) {
  held_ -= bytes + limits::kEagerOverheadBytes;
  outbox_.owe_credit(bytes + limits::kEagerOverheadBytes);
}

void Inbox::release(Arrival& arrival) {
  if (arrival.form == Arrival::Form::announced) {
    announced_.erase(arrival);
  } else {
    buffers_.put(std::move(arrival.buffer), arrival.bytes);
  }
  arrivals_.put(arrival);
}

bool Inbox::cancel(RecvOp& op) {
  if (open_ && op_ == &op) {
    op_ = nullptr;
    target_ = nullptr;
    return true;
  }
  Arrival* mine = nullptr;
  announced_.for_each([&](Arrival& arrival) {
    if (arrival.op == &op) {
      mine = &arrival;
    }
  });
  if (mine == nullptr) {
    return false;
  }
  mine->op = nullptr;  // its bytes were asked for and still come; they go nowhere
  if (open_ && arrival_ == mine) {
    target_ = nullptr;
  }
  return true;
}

void Inbox::forget(std::uint64_t group) {
  Arrival* arrival = table_.forget(group, peer_);
  while (arrival != nullptr) {
    Arrival* const next = arrival->next;
    if (arrival->form == Arrival::Form::announced) {
      outbox_.push_drop(arrival->id);
    } else {
      give_credit(arrival->bytes);
    }
    release(*arrival);
    arrival = next;
  }
}

void Inbox::lose(Events& events) {
  if (open_ && frame_.kind == FrameKind::data) {
    if (op_ != nullptr) {
      complete(*op_, TransferState::lost, events);
    } else if (arrival_ != nullptr) {
      release(*arrival_);
    }
  }
  open_ = false;
  op_ = nullptr;
  arrival_ = nullptr;
  MatchTable::Lost lost = table_.lose_peer(peer_);
  while (lost.receives != nullptr) {
    RecvOp& op = *lost.receives;
    lost.receives = op.next;
    complete(op, TransferState::lost, events);
  }
  while (lost.arrivals != nullptr) {
    Arrival& arrival = *lost.arrivals;
    lost.arrivals = arrival.next;
    release(arrival);
  }
  announced_.for_each([&](Arrival& arrival) {
    RecvOp* const op = arrival.op;
    release(arrival);
    if (op != nullptr) {
      complete(*op, TransferState::lost, events);
    }
  });
}

}  // namespace tutti
