#include "transport/outbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace tutti {
namespace {

// Credit goes back in quarters of the window: few frames, and never a sender that starves.
constexpr std::uint64_t kCreditWorthAFrame = limits::kEagerCreditBytes / 4;
// Control frames that are out are taken from the vector when there are so many.
constexpr std::size_t kTidyFrames = 64;

}  // namespace

void Outbox::push(SendOp& op) {
  op.next = nullptr;
  (queue_last_ != nullptr ? queue_last_->next : queue_first_) = &op;
  queue_last_ = &op;
  ++queued_;
}

// The same frame that add_message() would queue, in the same place in the order: before chunks.
bool Outbox::send_at_once(SendOp& op, Link& link, Events& events) {
  if (batch_begin_ != batch_end_ || queue_first_ != nullptr || control_due() || !fits_eagerly(op)) {
    return false;
  }
  const Frame frame{.kind = FrameKind::data,
                    .payload_bytes = static_cast<std::uint32_t>(op.bytes),
                    .key = op.key,
                    .stamp = op.stamp,
                    .bytes = op.bytes};
  std::array<std::byte, kFrameHeaderBytes> header;
  encode(frame, header.data());
  const std::array<std::span<const std::byte>, 2> parts{header, {op.data, op.bytes}};
  const std::size_t written = link.write(std::span(parts).first(op.bytes != 0 ? 2 : 1));
  if (written == 0) {
    return false;
  }
  events.moved = true;
  credit_ -= op.bytes + limits::kEagerOverheadBytes;
  if (written == header.size() + op.bytes) {
    op.moved = op.bytes;
    complete(op, TransferState::done, events);
    return true;
  }
  batch_begin_ = batch_end_ = 0;  // what did not fit is the next batch
  Queued& queued = add_frame(frame);
  queued.payload = op.data;
  queued.op = &op;
  queued.last = true;
  batch_written_ = written;
  return true;
}

void Outbox::push_control(FrameKind kind, std::uint64_t id) {
  if (control_.capacity() == 0) {
    control_.reserve(kTidyFrames);  // at once: how many wait together depends on timing
  }
  control_.push_back({.frame = {.kind = kind, .id = id}});
}

void Outbox::push_fault(std::uint64_t group, const Failure& failure) {
  if (reports_queued_ == limits::kMaxQueuedReports) {
    return;
  }
  ++reports_queued_;
  std::string text = failure.text.substr(0, limits::kMaxFaultTextBytes);
  const bool named = failure.peer >= 0 && failure.peer < limits::kMaxWorldSize;
  control_.push_back({.frame = {.kind = FrameKind::fault,
                                .payload_bytes = static_cast<std::uint32_t>(text.size()),
                                .key = {.group = group},
                                .stamp = static_cast<std::uint64_t>(failure.kind),
                                .id = named ? static_cast<std::uint64_t>(failure.peer) + 1 : 0},
                      .text = std::move(text)});
}

void Outbox::push_probe(const Transport::Probe& probe) {
  if (reports_queued_ == limits::kMaxQueuedReports) {
    return;
  }
  ++reports_queued_;
  control_.push_back({.frame = {.kind = FrameKind::probe,
                                .key = probe.call,
                                .stamp = probe.stamp,
                                .id = probe.history}});
}

std::optional<std::string> Outbox::cleared(std::uint64_t id, Events& events) {
  Outgoing* outgoing = outgoing_.find(id);
  if (outgoing == nullptr && id < next_id_ && id != 0) {
    return std::nullopt;  // withdrawn meanwhile
  }
  if (outgoing == nullptr || outgoing->cleared) {
    return fmt::format("clear for message {}, which does not wait for one", id);
  }
  if (outgoing->op->bytes == 0) {
    SendOp& op = *outgoing->op;
    outgoing_.erase(*outgoing);
    pool_.put(*outgoing);
    complete(op, TransferState::done, events);
    return std::nullopt;
  }
  outgoing->cleared = true;
  outgoing->next = nullptr;
  (cleared_last_ != nullptr ? cleared_last_->next : cleared_first_) = outgoing;
  cleared_last_ = outgoing;
  return std::nullopt;
}

std::optional<std::string> Outbox::dropped(std::uint64_t id, Events& events) {
  Outgoing* outgoing = outgoing_.find(id);
  if (outgoing == nullptr && id < next_id_ && id != 0) {
    return std::nullopt;  // withdrawn meanwhile
  }
  if (outgoing == nullptr || outgoing->cleared) {
    return fmt::format("drop for message {}, which was not announced", id);
  }
  SendOp& op = *outgoing->op;
  outgoing_.erase(*outgoing);
  pool_.put(*outgoing);
  complete(op, TransferState::done, events);
  return std::nullopt;
}

std::optional<std::string> Outbox::credited(std::uint64_t bytes) {
  if (bytes > limits::kEagerCreditBytes - credit_) {
    return fmt::format("{} bytes of credit came back, {} are out", bytes,
                       limits::kEagerCreditBytes - credit_);
  }
  credit_ += bytes;
  return std::nullopt;
}

bool Outbox::fits_eagerly(const SendOp& op) const {
  return op.bytes <= limits::kEagerBytes && op.bytes + limits::kEagerOverheadBytes <= credit_;
}

bool Outbox::control_due() const {
  return control_first_ != control_.size() || owed_ >= kCreditWorthAFrame;
}

bool Outbox::queue_due() const {
  return queue_first_ != nullptr &&
         (outgoing_.size() < limits::kMaxAnnounced || fits_eagerly(*queue_first_));
}

bool Outbox::has_output() const {
  return batch_begin_ != batch_end_ || control_due() || queue_due() || cleared_first_ != nullptr;
}

Outbox::Queued& Outbox::add_frame(const Frame& frame) {
  Queued& queued = batch_[batch_end_++];
  encode(frame, queued.header.data());
  queued.payload = nullptr;
  queued.payload_bytes = frame.payload_bytes;
  queued.op = nullptr;
  queued.last = false;
  return queued;
}

void Outbox::add_control() {
  if (owed_ >= kCreditWorthAFrame) {
    add_frame({.kind = FrameKind::credit, .bytes = owed_});
    owed_ = 0;
    return;
  }
  Control& control = control_[control_first_];
  Queued& queued = add_frame(control.frame);
  if (control.frame.kind == FrameKind::fault || control.frame.kind == FrameKind::probe) {
    --reports_queued_;
  }
  if (control.frame.kind == FrameKind::fault) {
    queued.aside = std::make_unique_for_overwrite<std::byte[]>(control.text.size());
    std::memcpy(queued.aside.get(), control.text.data(), control.text.size());
    queued.payload = queued.aside.get();
  }
  drop_front_control();
}

void Outbox::drop_front_control() {
  ++control_first_;
  // Moving the rest down once per half keeps the cost per frame constant, and the vector bounded by
  // twice what waits.
  if (control_first_ == control_.size() ||
      (control_first_ >= kTidyFrames && 2 * control_first_ >= control_.size())) {
    control_.erase(control_.begin(),
                   control_.begin() + static_cast<std::ptrdiff_t>(control_first_));
    control_first_ = 0;
  }
}

/// The first message of the queue: whole, or its announcement. Returns the bytes of payload.
std::size_t Outbox::add_message() {
  SendOp& op = *queue_first_;
  queue_first_ = op.next;
  if (queue_first_ == nullptr) {
    queue_last_ = nullptr;
  }
  --queued_;
  op.next = nullptr;
  Frame frame{.kind = FrameKind::data, .key = op.key, .stamp = op.stamp, .bytes = op.bytes};
  if (fits_eagerly(op)) {
    credit_ -= op.bytes + limits::kEagerOverheadBytes;
    frame.payload_bytes = static_cast<std::uint32_t>(op.bytes);
    Queued& queued = add_frame(frame);
    queued.payload = op.data;
    queued.op = &op;
    queued.last = true;
    return op.bytes;
  }
  Outgoing& outgoing = pool_.get();
  outgoing.id = next_id_++;
  outgoing.op = &op;
  outgoing_.insert(outgoing);
  frame.kind = FrameKind::announce;
  frame.id = outgoing.id;
  add_frame(frame);
  return 0;
}

void Outbox::add_chunk() {
  Outgoing& outgoing = *cleared_first_;
  cleared_first_ = outgoing.next;
  if (cleared_first_ == nullptr) {
    cleared_last_ = nullptr;
  }
  SendOp& op = *outgoing.op;
  const std::size_t bytes = std::min(limits::kChunkBytes, op.bytes - op.moved);
  Queued& queued = add_frame({.kind = FrameKind::chunk,
                              .payload_bytes = static_cast<std::uint32_t>(bytes),
                              .bytes = op.moved,
                              .id = outgoing.id});
  queued.payload = op.data + op.moved;
  queued.op = &op;
  queued.last = op.moved + bytes == op.bytes;
  op.moved += bytes;
  if (queued.last) {
    outgoing_.erase(outgoing);
    pool_.put(outgoing);
    return;
  }
  outgoing.next = nullptr;
  (cleared_last_ != nullptr ? cleared_last_->next : cleared_first_) = &outgoing;
  cleared_last_ = &outgoing;
}

void Outbox::fill_batch() {
  batch_begin_ = batch_end_ = batch_written_ = 0;
  while (batch_end_ + 1 < kBatchFrames && control_due()) {
    add_control();
  }
  std::size_t bytes = 0;
  while (batch_end_ + 1 < kBatchFrames && bytes < kBatchBytes && queue_due()) {
    bytes += add_message();
  }
  if (cleared_first_ != nullptr) {
    add_chunk();
  }
}

void Outbox::retire(Queued& frame, Events& events) {
  frame.aside.reset();
  SendOp* const op = frame.op;
  frame.op = nullptr;
  if (op != nullptr && frame.last) {
    op->moved = op->bytes;
    complete(*op, TransferState::done, events);
  }
}

void Outbox::advance(std::size_t bytes, Events& events) {
  batch_written_ += bytes;
  while (batch_begin_ != batch_end_) {
    Queued& frame = batch_[batch_begin_];
    const std::size_t whole = kFrameHeaderBytes + frame.payload_bytes;
    if (batch_written_ < whole) {
      return;
    }
    batch_written_ -= whole;
    ++batch_begin_;
    retire(frame, events);
  }
}

void Outbox::flush(Link& link, Events& events) {
  if (!has_output()) {
    return;
  }
  std::array<std::span<const std::byte>, 2 * kBatchFrames> parts;
  std::size_t total = 0;
  while (total < limits::kPollBytes) {
    if (batch_begin_ == batch_end_) {
      fill_batch();
    }
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t skip = batch_written_;
    for (std::size_t i = batch_begin_; i != batch_end_; ++i) {
      const std::span<const std::byte> header = batch_[i].header;
      const std::span<const std::byte> payload(batch_[i].payload, batch_[i].payload_bytes);
      const std::size_t skip_header = std::min(skip, header.size());
      parts[count++] = header.subspan(skip_header);
      if (!payload.empty()) {
        parts[count++] = payload.subspan(skip - skip_header);
      }
      bytes += header.size() + payload.size() - skip;
      skip = 0;
    }
    if (bytes == 0) {
      return;
    }
    const std::size_t written = link.write(std::span(parts.data(), count));
    if (written == 0) {
      return;
    }
    events.moved = true;
    total += written;
    advance(written, events);
    if (written < bytes) {
      return;
    }
  }
}

void Outbox::unlink_cleared(Outgoing& outgoing) {
  Outgoing* before = nullptr;
  for (Outgoing* at = cleared_first_; at != nullptr; before = at, at = at->next) {
    if (at != &outgoing) {
      continue;
    }
    (before != nullptr ? before->next : cleared_first_) = outgoing.next;
    if (cleared_last_ == &outgoing) {
      cleared_last_ = before;
    }
    return;
  }
}

void Outbox::set_aside(Queued& frame) {
  frame.op = nullptr;
  if (frame.payload_bytes != 0) {
    frame.aside = std::make_unique_for_overwrite<std::byte[]>(frame.payload_bytes);
    std::memcpy(frame.aside.get(), frame.payload, frame.payload_bytes);
    frame.payload = frame.aside.get();
  }
}

bool Outbox::cancel(SendOp& op) {
  SendOp* before = nullptr;
  for (SendOp* at = queue_first_; at != nullptr; before = at, at = at->next) {
    if (at != &op) {
      continue;
    }
    (before != nullptr ? before->next : queue_first_) = op.next;
    if (queue_last_ == &op) {
      queue_last_ = before;
    }
    --queued_;
    return true;
  }
  bool found = false;
  for (std::size_t i = batch_begin_; i != batch_end_; ++i) {
    if (batch_[i].op == &op) {
      set_aside(batch_[i]);  // the peer is owed the whole frame
      found = true;
    }
  }
  Outgoing* mine = nullptr;
  outgoing_.for_each([&](Outgoing& outgoing) {
    if (outgoing.op == &op) {
      mine = &outgoing;
    }
  });
  if (mine == nullptr) {
    return found;
  }
  if (mine->cleared) {
    unlink_cleared(*mine);
  }
  push_control(FrameKind::withdraw, mine->id);
  outgoing_.erase(*mine);
  pool_.put(*mine);
  return true;
}

void Outbox::lose(Events& events) {
  // Ops in chunks of the batch may still be announced; `last` tells which are only in the batch.
  for (std::size_t i = batch_begin_; i != batch_end_; ++i) {
    if (batch_[i].op != nullptr && batch_[i].last) {
      complete(*batch_[i].op, TransferState::lost, events);
    }
    batch_[i].op = nullptr;
    batch_[i].aside.reset();
  }
  batch_begin_ = batch_end_ = batch_written_ = 0;
  outgoing_.for_each([&](Outgoing& outgoing) {
    complete(*outgoing.op, TransferState::lost, events);
    outgoing_.erase(outgoing);
    pool_.put(outgoing);
  });
  while (queue_first_ != nullptr) {
    SendOp& op = *queue_first_;
    queue_first_ = op.next;
    complete(op, TransferState::lost, events);
  }
  queue_last_ = nullptr;
  queued_ = 0;
  cleared_first_ = cleared_last_ = nullptr;
  control_.clear();
  control_first_ = 0;
  reports_queued_ = 0;
  owed_ = 0;
}

}  // namespace tutti
