// Inbox: turns the bytes of one link into messages in their receives' buffers.
//
// Bytes after a header go straight from the link to where they belong: into the receive's buffer if
// the message has met its receive, else (small messages only) into a buffer of the pool. A read
// asks for the rest of the payload and then for a little more, the staging area, so that the next
// header costs no read of its own; for a socket the staging area is a few KiB, for shared memory
// it is one header, so that no payload is copied twice there.
//
// Bounds: buffers <= kEagerCreditBytes, announcements <= kMaxAnnounced; a peer that exceeds them,
// or says anything that makes no sense, ends the connection. Everything here belongs to the
// channel's lock.
#pragma once

#include "base/failure.hpp"
#include "transport/events.hpp"
#include "transport/frame.hpp"
#include "transport/match.hpp"
#include "transport/outbox.hpp"
#include "transport/pool.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class Inbox {
 public:
  Inbox(int peer, MatchTable& table, Outbox& outbox)
      : peer_(peer), table_(table), outbox_(outbox) {}

  /// Bytes read ahead of a header; at least kFrameHeaderBytes.
  void set_staging_bytes(std::size_t bytes) { staging_.resize(bytes); }
  /// Reads and handles what the link has, up to limits::kPollBytes. A failure ends the link: its
  /// own, a peer that left, or one that broke the protocol.
  std::optional<Failure> pump(Link& link, Events& events) { return read(link, events, nullptr); }
  /// As pump(), for a receive that was just posted, and no further than its message, so that those
  /// behind it can meet receives that are posted next. `unposted`: it is in no table, and nothing
  /// in there could match before it; it has met its message if its source is set afterwards.
  std::optional<Failure> pump_for(RecvOp& op, bool unposted, Link& link, Events& events);
  /// Hands a message that waited in the table to the receive it has met.
  void deliver(Arrival& arrival, RecvOp& op, Events& events);
  /// Lets go of `op`; false if no message of this peer has met it.
  bool cancel(RecvOp& op);
  /// Drops the waiting messages of a group.
  void forget(std::uint64_t group);
  /// The link is gone: what cannot complete any more ends as lost.
  void lose(Events& events);

 private:
  using Trouble = std::optional<std::string>;  // what the peer did wrong

  std::optional<Failure> read(Link& link, Events& events, const RecvOp* until);
  RecvOp* take_receive(bool keep_place);
  std::size_t fill(Link& link, bool ahead, std::size_t& asked);
  Trouble digest(Events& events);
  Trouble start(Events& events);
  Trouble start_data(Events& events);
  Trouble start_announce(Events& events);
  Trouble start_chunk();
  Trouble withdraw(Events& events);
  void finish(Events& events);
  void finish_data(Events& events);
  void finish_chunk(Events& events);
  void finish_fault(Events& events);
  void accept(Arrival& arrival, RecvOp& op, Events& events);
  void release(Arrival& arrival);
  void give_credit(std::uint64_t bytes);

  const int peer_;
  MatchTable& table_;
  Outbox& outbox_;
  Pool<Arrival> arrivals_;
  BufferPool buffers_;
  IdTable<Arrival> announced_;  // waiting, or met their receive and not complete
  std::uint64_t next_id_ = 1;   // that the peer will use
  std::uint64_t held_ = 0;      // eager credit that was not given back
  bool peer_left_ = false;

  std::vector<std::byte> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;

  // The frame being read.
  bool open_ = false;
  Frame frame_{};
  std::size_t rest_ = 0;         // of its payload
  std::byte* target_ = nullptr;  // where the rest goes; null: nowhere
  RecvOp* op_ = nullptr;         // data: the receive it met
  Arrival* arrival_ = nullptr;   // data that met none, or the message of a chunk
  RecvOp* unposted_ = nullptr;   // within pump_for()
  std::string fault_text_;
  std::array<std::byte, 4096> scrap_;
};

}  // namespace tutti
