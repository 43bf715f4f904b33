// Channel: everything between this rank and one peer. An Outbox and an Inbox over one Link, under
// one lock. Knows no other channel; the match table is shared.
#pragma once

#include "base/short_lock.hpp"
#include "transport/inbox.hpp"
#include "transport/outbox.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace tutti {

class Channel {
 public:
  Channel(int peer, MatchTable& table);

  /// Guards everything below, up to the line.
  ShortLock& mutex() { return mutex_; }
  /// Gives the link; at most once. What was sent before flows now.
  void attach(std::unique_ptr<Link> link, Events& events);
  void send(SendOp& op, Events& events);
  void recv(RecvOp& op, Events& events);
  /// As recv(), but leaves the receive alone and returns false if its message is not here yet.
  bool recv_arrived(RecvOp& op, Events& events);
  /// For a receive from anyone that met `arrival` of this peer.
  void deliver(Arrival& arrival, RecvOp& op, Events& events);
  bool cancel(SendOp& op, Events& events);
  bool cancel(RecvOp& op) { return inbox_.cancel(op); }
  void forget(std::uint64_t group, Events& events);
  void send_fault(std::uint64_t group, const Failure& failure, Events& events);
  void send_probe(const Transport::Probe& probe, Events& events);
  void send_bye(Events& events);
  /// Reads, answers, writes.
  void pump(Events& events);
  /// Reads what had arrived from a peer that is gone, then fails.
  void peer_died(const Failure& failure, Events& events);
  /// Whether pump() may find something to do; for links without a descriptor.
  bool busy() const { return !failed() && (wants_write_ || link_->readable()); }
  /// False if there is something to do at once.
  bool arm();
  /// Sends, and bytes in the link, that are not out of this process.
  std::size_t pending() const;
  bool has_output() const { return link_ != nullptr && !failed() && outbox_.has_output(); }

  // ---- any thread
  int peer() const { return peer_; }
  int fd() const { return attached() ? link_->fd() : -1; }
  /// Whether a look at the link costs no system call.
  bool has_ring() const { return attached() && link_->fd() < 0; }
  /// A hint for recv_arrived(): whether it may find anything, now or later.
  bool may_recv_early() const { return has_ring() && !failed() && table_.idle(); }
  bool failed() const {
    // acquire: pairs with the release in fail(); failure_ is not written after it.
    return failed_.load(std::memory_order_acquire);
  }
  std::optional<Failure> failure() const { return failed() ? failure_ : std::nullopt; }
  std::string describe() const { return attached() ? link_->describe() : "no link yet"; }

 private:
  bool attached() const {
    // acquire: pairs with the release in attach(); link_ is not written after it.
    return attached_.load(std::memory_order_acquire);
  }
  void flush(Events& events);
  void pump_for(RecvOp& op, bool unposted, Events& events);
  void fail(const Failure& failure, Events& events);

  const int peer_;
  MatchTable& table_;
  ShortLock mutex_;
  std::unique_ptr<Link> link_;
  std::atomic<bool> attached_{false};
  std::atomic<bool> failed_{false};
  std::optional<Failure> failure_;
  bool wants_write_ = false;  // as of the last flush()
  Outbox outbox_;
  Inbox inbox_;
};

}  // namespace tutti
