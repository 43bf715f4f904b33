// Matching: pairs arriving messages with posted receives.
//
// One entry per (key, peer) in use holds either posted receives or arrivals that nobody asked for,
// both oldest first. Receives from anyone stand in the entry (key, kAnySource), which also queues
// the peers that have an arrival with that key, so that peers take turns. Every look-up is one or
// two hash probes, whatever the number of ranks.
//
// Locks: the table has its own, taken last. Arrivals of a peer, and receives from that peer alone,
// enter and leave only under the lock of that peer's channel; so between two calls under a
// channel's lock nobody else matches that peer's messages.
#pragma once

#include "base/short_lock.hpp"
#include "transport/pool.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti {

/// A message that met no receive yet, or that announced itself and is not complete. Pooled by its
/// channel.
struct Arrival {
  enum class Form : std::uint8_t {
    eager,      ///< all of it lies in `buffer`
    announced,  ///< its bytes are still with the sender, who calls it `id`
    local,      ///< a send to oneself, `send`
  };
  Form form = Form::eager;
  bool waiting = false;  ///< in the table; match lock
  int peer = -1;
  MessageKey key{};
  std::uint64_t stamp = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
  std::uint64_t moved = 0;
  std::unique_ptr<std::byte[]> buffer{};
  SendOp* send = nullptr;
  RecvOp* op = nullptr;      ///< announced: the receive it met; empty again if that was cancelled
  Arrival* next = nullptr;   ///< match lock; in chains handed out: the holder's
  Arrival* chain = nullptr;  ///< IdTable
};

class MatchTable {
 public:
  MatchTable();

  /// The oldest receive that takes a message of `peer` with `key`; it leaves the table.
  RecvOp* take_posted(int peer, const MessageKey& key);
  /// Whether it holds nothing of a peer whose channel the caller has locked (and, as it happens, of
  /// no other either). Takes no lock: what concerns that peer was done under the channel's, and
  /// what other threads post from anyone at this moment has no order with the caller's.
  bool idle() const { return in_use_.load(std::memory_order_relaxed) == 0; }
  /// Gives a receive that was never posted its place in the order.
  void number(RecvOp& op);
  /// Keeps an arrival that met no receive.
  void add(Arrival& arrival);
  /// The oldest arrival from `peer` with the key of `op`, if any; it leaves the table.
  Arrival* take(RecvOp& op, int peer);
  /// As take() from op.peer; without an arrival the receive is posted. Not for any-source.
  Arrival* take_or_post(RecvOp& op);
  /// For a receive from anyone: whose turn it is; without an arrival the receive is posted (-1).
  int turn_or_post(RecvOp& op);
  /// Posts a receive again whose message was withdrawn, at its old place in the order.
  void post_again(RecvOp& op);

  /// A peer with an arrival that a posted receive from anyone could take. Needed only after
  /// post_again(), the one way to have both at once.
  std::optional<int> unsettled(const MessageKey& key);
  struct Pair {
    RecvOp* op = nullptr;
    Arrival* arrival = nullptr;
  };
  /// Takes a receive from anyone and an arrival of `peer` for it; both or neither.
  Pair take_pair(const MessageKey& key, int peer);

  /// Takes a posted receive out again; false if it is not posted.
  bool unpost(RecvOp& op);
  /// The sender that `op` has met; -1 before that.
  int source_of(const RecvOp& op);
  /// Takes an arrival out; false if it had left the table.
  bool remove(Arrival& arrival);

  struct Lost {
    RecvOp* receives = nullptr;   ///< posted for that peer alone; chained by next
    Arrival* arrivals = nullptr;  ///< announced, never to come; chained by next
  };
  /// Takes out what can never complete once `peer` is gone.
  Lost lose_peer(int peer);
  /// Peers with arrivals for a group, and taking those of one peer out (chained by next).
  std::vector<int> peers_of_group(std::uint64_t group);
  Arrival* forget(std::uint64_t group, int peer);

  /// Entries in use; for tests.
  std::size_t size();

 private:
  struct Entry {
    MessageKey key{};
    int peer = -1;
    bool queued = false;     // in the turn queue of (key, kAnySource)
    Entry* chain = nullptr;  // same hash slot
    RecvOp* posted_first = nullptr;
    RecvOp* posted_last = nullptr;
    Arrival* first = nullptr;
    Arrival* last = nullptr;
    Entry* turn_before = nullptr;
    Entry* turn_after = nullptr;
    Entry* turn_first = nullptr;  // only in an any-source entry
    Entry* turn_last = nullptr;
  };

  // All private functions: the lock is held.
  std::size_t slot(const MessageKey& key, int peer) const;
  Entry* find(const MessageKey& key, int peer) const;
  Entry& find_or_make(const MessageKey& key, int peer);
  void release_if_empty(Entry& entry);
  void grow();
  void post(RecvOp& op);
  RecvOp* pop_posted(Entry& entry);
  Arrival* pop_arrival(Entry& entry);
  void join_turns(Entry& entry);
  void leave_turns(Entry& entry);
  template <typename Keep>
  Arrival* extract(Entry& entry, Keep keep);
  template <typename Visit>
  void for_each_entry(Visit visit);

  ShortLock mutex_;
  std::vector<Entry*> slots_;  // a power of two
  Pool<Entry> entries_;
  std::atomic<std::size_t> in_use_{0};  // entries; written under the lock
  std::uint64_t next_order_ = 1;
  std::size_t any_posted_ = 0;
};

}  // namespace tutti
