// Outbox: what one channel has to say, cut into frames.
//
// Three sources, looked at in this order whenever the link has taken the last batch of frames:
//   control   answers to the peer and reports (clear, drop, credit, fault, ...); never starved
//   queue     messages in the order they were sent: whole if small and the peer's credit allows,
//             else announced. Order among messages is decided here and never changes afterwards
//   cleared   announced messages whose receive is there; they take turns, one chunk per batch
// So an answer waits for at most one batch: some small frames and one chunk.
//
// Bounds: eager bytes unread by the peer <= kEagerCreditBytes; announced and not moved
// <= kMaxAnnounced (further sends wait in the queue, which costs nothing: ops link themselves);
// control frames <= one per announced message of either side, plus kMaxQueuedReports.
// Everything here belongs to the channel's lock.
#pragma once

#include "base/limits.hpp"
#include "transport/events.hpp"
#include "transport/frame.hpp"
#include "transport/pool.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

class Outbox {
 public:
  void push(SendOp& op);
  /// Writes a small message straight into the link if nothing has to go out before it; false: it
  /// has to be pushed.
  bool send_at_once(SendOp& op, Link& link, Events& events);
  void push_clear(std::uint64_t id) { push_control(FrameKind::clear, id); }
  void push_drop(std::uint64_t id) { push_control(FrameKind::drop, id); }
  void push_fault(std::uint64_t group, const Failure& failure);
  void push_probe(const Transport::Probe& probe);
  void push_bye() { push_control(FrameKind::bye, 0); }
  /// Credit to give back; goes out once it is worth a frame.
  void owe_credit(std::uint64_t bytes) { owed_ += bytes; }

  /// What the peer answered; a text if it makes no sense.
  std::optional<std::string> cleared(std::uint64_t id, Events& events);
  std::optional<std::string> dropped(std::uint64_t id, Events& events);
  std::optional<std::string> credited(std::uint64_t bytes);

  /// Hands the link what it takes, up to limits::kPollBytes.
  void flush(Link& link, Events& events);
  /// Whether there is something that only waits for room in the link.
  bool has_output() const;
  /// Sends that are not completely handed over.
  std::size_t pending() const { return queued_ + outgoing_.size() + (batch_end_ - batch_begin_); }

  /// Lets go of `op`; false if it is not here.
  bool cancel(SendOp& op);
  /// The link is gone: everything ends as lost.
  void lose(Events& events);

 private:
  /// An announced message until its last chunk is in a batch.
  struct Outgoing {
    std::uint64_t id = 0;
    SendOp* op = nullptr;
    bool cleared = false;
    Outgoing* next = nullptr;   // cleared_
    Outgoing* chain = nullptr;  // IdTable
  };
  /// A frame in the batch. `op` is set while the frame needs it: for its payload, or because the
  /// op is done once the frame is out (`last`).
  struct Queued {
    std::array<std::byte, kFrameHeaderBytes> header;
    const std::byte* payload = nullptr;
    std::size_t payload_bytes = 0;
    SendOp* op = nullptr;
    bool last = false;
    std::unique_ptr<std::byte[]> aside{};  // the payload, once the op was cancelled
  };
  struct Control {
    Frame frame{};
    std::string text{};
  };
  static constexpr std::size_t kBatchFrames = 16;
  static constexpr std::size_t kBatchBytes = std::size_t{64} << 10;  // before the chunk

  void push_control(FrameKind kind, std::uint64_t id);
  bool control_due() const;
  bool queue_due() const;
  bool fits_eagerly(const SendOp& op) const;
  void fill_batch();
  Queued& add_frame(const Frame& frame);
  void add_control();
  void drop_front_control();
  std::size_t add_message();
  void add_chunk();
  void advance(std::size_t bytes, Events& events);
  void retire(Queued& frame, Events& events);
  void unlink_cleared(Outgoing& outgoing);
  static void set_aside(Queued& frame);

  // Those before control_first_ are out. Not a deque: that allocates again and again.
  std::vector<Control> control_;
  std::size_t control_first_ = 0;
  std::size_t reports_queued_ = 0;
  std::uint64_t owed_ = 0;

  SendOp* queue_first_ = nullptr;
  SendOp* queue_last_ = nullptr;
  std::size_t queued_ = 0;

  std::uint64_t credit_ = limits::kEagerCreditBytes;
  std::uint64_t next_id_ = 1;
  Pool<Outgoing> pool_;
  IdTable<Outgoing> outgoing_;
  Outgoing* cleared_first_ = nullptr;
  Outgoing* cleared_last_ = nullptr;

  std::array<Queued, kBatchFrames> batch_{};
  std::size_t batch_begin_ = 0;  // first frame not completely out
  std::size_t batch_end_ = 0;
  std::size_t batch_written_ = 0;  // bytes of that frame that are out
};

}  // namespace tutti
