// Transport: messages between ranks. One Channel per peer turns a Link's bytes into frames; one
// match table pairs arriving messages with posted receives. The engine knows only this file.
//
// Matching: a receive takes the oldest unmatched message with its key from its peer (or from
// anyone, fair among peers). Messages of equal (peer, key) never overtake each other. Protocols:
// small messages are sent eagerly (bounded per peer by credit), large ones announce themselves and
// move once the receive is posted; nothing is buffered without a bound. Threads: any thread may
// call; a channel has its own lock. A completion is a release store of `state`; who polls reads it
// with acquire.
#pragma once

#include "base/failure.hpp"
#include "transport/link.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tutti {

/// What must be equal for a message to match a receive, beside the peer.
struct MessageKey {
  std::uint64_t group = 0;  ///< identity of the group, equal on all its ranks
  std::uint64_t tag = 0;    ///< collective: its sequence number; point to point: the user's tag
  bool operator==(const MessageKey&) const = default;
};

enum class TransferState : std::uint8_t {
  idle,    ///< not started
  active,  ///< owned by the transport
  done,
  mismatch,  ///< receive only: stamp or size differ; the message was consumed, no byte was stored
  lost,      ///< the peer is gone; see Transport::failure
};

/// One message out. Owned by the caller, who keeps it and the bytes in place while active.
struct SendOp {
  int peer = -1;
  MessageKey key{};
  std::uint64_t stamp = 0;  ///< travels with the message and is compared by the receiver
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::atomic<TransferState> state{TransferState::idle};
  std::size_t moved = 0;   ///< bytes handed to the link so far; channel lock
  SendOp* next = nullptr;  ///< channel lock
};

/// One message in.
struct RecvOp {
  int peer = -1;  ///< kAnySource: whoever sends with this key
  MessageKey key{};
  std::uint64_t stamp = 0;  ///< must equal the sender's
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< must equal the sender's
  std::atomic<TransferState> state{TransferState::idle};
  int source = -1;                ///< once matched: the sender
  std::uint64_t their_stamp = 0;  ///< once matched
  std::size_t their_bytes = 0;    ///< once matched
  std::size_t moved = 0;          ///< bytes stored so far; channel lock
  RecvOp* next = nullptr;         ///< match table lock
  std::uint64_t order = 0;        ///< when it was posted; match table lock
};

class Transport {
 public:
  /// `rank`: this process in the world. `on_fault(peer, group, failure)` is called, without any
  /// lock held, when a peer reports that a group failed.
  using FaultHandler = std::function<void(int peer, std::uint64_t group, const Failure& failure)>;
  Transport(int rank, int world_size, FaultHandler on_fault);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// In the child after a fork: the links belong to the parent; from now on only the destructor
  /// may be called, and it says nothing to anybody.
  void abandon();
  /// Called, without any lock held, when threads that armed must look again: after a call that
  /// completed ops other than its own or filled a link. It must end the sleep of every thread that
  /// armed before, also if that thread is only about to sleep. Set before the first message.
  void set_wake_callback(std::function<void()> wake);

  /// Gives the link to `peer`; at most one per peer. Messages for a peer without a link wait for
  /// it. A message to oneself needs no link.
  void add_link(int peer, std::unique_ptr<Link> link);

  void send(SendOp& op);
  void recv(RecvOp& op);
  /// send() or recv() for `op(0)` to `op(count - 1)`, in this order. Neighbours with one peer share
  /// a turn at the lock of its channel.
  using AnyOp = std::variant<SendOp*, RecvOp*>;
  void post(std::size_t count, const std::function<AnyOp(std::size_t)>& op);
  /// For who looks again and again anyway: receives without posting, which costs nothing while
  /// nothing has come. Only from a peer that shares memory; from others, or when other messages and
  /// receives wait, the answer is `post`.
  enum class Early : std::uint8_t {
    later,  ///< nothing has come; the op is as before
    met,    ///< as after recv(), and its message has come
    post,   ///< call recv()
  };
  Early recv_early(RecvOp& op);
  /// After these return the transport no longer touches the op or its bytes; an op that was still
  /// active is idle again. A frame that is partly out is completed from a copy; then a message
  /// whose bytes did not all go out is withdrawn: its receive waits on as if it had never been
  /// sent. A receive that a message had already met takes that message along.
  void cancel(SendOp& op);
  void cancel(RecvOp& op);
  /// Drops what arrived for `group` and was never received; a destroyed group's leftovers.
  void forget_group(std::uint64_t group);
  /// Tells `peer` that the group failed; best effort, never blocks.
  void send_fault(int peer, std::uint64_t group, const Failure& failure);

  /// Asks `peer`, which keeps this rank waiting, to compare: this rank is in the call `call.tag` of
  /// group `call.group` with fingerprint `stamp`, after calls that hash to `history`. Rare (slow
  /// looks only); never blocks.
  struct Probe {
    MessageKey call{};  ///< tag: the sequence number
    std::uint64_t stamp = 0;
    std::uint64_t history = 0;
  };
  void send_probe(int peer, const Probe& probe);
  /// Called, without any lock held, when a peer asks that. Set before the first message.
  using ProbeHandler = std::function<void(int peer, const Probe& probe)>;
  void set_probe_handler(ProbeHandler handler);

  /// Moves what can be moved on every link; true if anything moved.
  bool poll();
  /// Before sleeping: arms every link with something to wait for. False: something may have
  /// happened; look at the ops and poll again instead of sleeping.
  bool arm();
  /// An epoll descriptor that is readable when a socket has something; -1 without sockets.
  int poll_fd() const;
  /// Why `peer` cannot be reached any more; empty while it can.
  std::optional<Failure> failure(int peer) const;
  /// Marks a peer as gone (its process died): what had arrived can still be received, all other
  /// transfers with it end as lost. A receive from anyone that met no message yet stays.
  void peer_died(int peer, const Failure& failure);
  std::string describe(int peer) const;
  /// Sends to peers that are not yet out of this process; a clean exit waits for 0.
  std::size_t pending_sends() const;

 private:
  struct Internals;
  std::unique_ptr<Internals> internals_;
};

}  // namespace tutti
