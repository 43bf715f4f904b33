#include "transport/match.hpp"

#include "base/ensure.hpp"

#include <tutti/options.hpp>

#include <algorithm>

namespace tutti {

MatchTable::MatchTable() : slots_(256, nullptr) {}

std::size_t MatchTable::slot(const MessageKey& key, int peer) const {
  std::uint64_t hash = key.group * 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 32) ^ key.tag) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 29) ^ static_cast<std::uint32_t>(peer)) * 0x94d049bb133111ebU;
  return (hash ^ (hash >> 32)) & (slots_.size() - 1);
}

MatchTable::Entry* MatchTable::find(const MessageKey& key, int peer) const {
  Entry* entry = slots_[slot(key, peer)];
  while (entry != nullptr && !(entry->peer == peer && entry->key == key)) {
    entry = entry->chain;
  }
  return entry;
}

MatchTable::Entry& MatchTable::find_or_make(const MessageKey& key, int peer) {
  if (Entry* found = find(key, peer)) {
    return *found;
  }
  if (entries_.in_use() >= slots_.size()) {
    grow();
  }
  Entry& entry = entries_.get();
  in_use_.store(entries_.in_use(), std::memory_order_relaxed);
  entry.key = key;
  entry.peer = peer;
  Entry*& head = slots_[slot(key, peer)];
  entry.chain = head;
  head = &entry;
  return entry;
}

void MatchTable::grow() {
  std::vector<Entry*> old(slots_.size() * 2, nullptr);
  old.swap(slots_);
  for (Entry* entry : old) {
    while (entry != nullptr) {
      Entry* const next = entry->chain;
      Entry*& head = slots_[slot(entry->key, entry->peer)];
      entry->chain = head;
      head = entry;
      entry = next;
    }
  }
}

void MatchTable::release_if_empty(Entry& entry) {
  if (entry.posted_first != nullptr || entry.first != nullptr || entry.turn_first != nullptr) {
    return;
  }
  Entry** at = &slots_[slot(entry.key, entry.peer)];
  while (*at != &entry) {
    at = &(*at)->chain;
  }
  *at = entry.chain;
  entries_.put(entry);
  in_use_.store(entries_.in_use(), std::memory_order_relaxed);
}

// Posted receives stand in the order of their first posting. A new one is the youngest; only one
// that is posted again needs the walk.
void MatchTable::post(RecvOp& op) {
  Entry& entry = find_or_make(op.key, op.peer);
  op.source = -1;
  op.next = nullptr;
  if (op.peer == kAnySource) {
    ++any_posted_;
  }
  if (entry.posted_first == nullptr) {
    entry.posted_first = entry.posted_last = &op;
    return;
  }
  if (entry.posted_last->order < op.order) {
    entry.posted_last->next = &op;
    entry.posted_last = &op;
    return;
  }
  RecvOp** at = &entry.posted_first;
  while ((*at)->order < op.order) {
    at = &(*at)->next;
  }
  op.next = *at;
  *at = &op;
}

RecvOp* MatchTable::pop_posted(Entry& entry) {
  RecvOp* op = entry.posted_first;
  entry.posted_first = op->next;
  if (entry.posted_first == nullptr) {
    entry.posted_last = nullptr;
  }
  op->next = nullptr;
  if (op->peer == kAnySource) {
    --any_posted_;
  }
  release_if_empty(entry);
  return op;
}

RecvOp* MatchTable::take_posted(int peer, const MessageKey& key) {
  const std::scoped_lock lock(mutex_);
  Entry* entry = find(key, peer);
  if (entry != nullptr && entry->posted_first == nullptr) {
    entry = nullptr;
  }
  if (any_posted_ != 0) {
    Entry* any = find(key, kAnySource);
    if (any != nullptr && any->posted_first != nullptr &&
        (entry == nullptr || any->posted_first->order < entry->posted_first->order)) {
      entry = any;
    }
  }
  if (entry == nullptr) {
    return nullptr;
  }
  RecvOp* op = pop_posted(*entry);
  op->source = peer;
  return op;
}

void MatchTable::join_turns(Entry& entry) {
  Entry& any = find_or_make(entry.key, kAnySource);
  entry.queued = true;
  entry.turn_before = any.turn_last;
  entry.turn_after = nullptr;
  (any.turn_last != nullptr ? any.turn_last->turn_after : any.turn_first) = &entry;
  any.turn_last = &entry;
}

void MatchTable::leave_turns(Entry& entry) {
  Entry* any = find(entry.key, kAnySource);
  ensure(any != nullptr && entry.queued, "peer with arrivals is not in the queue of its key");
  (entry.turn_before != nullptr ? entry.turn_before->turn_after : any->turn_first) =
      entry.turn_after;
  (entry.turn_after != nullptr ? entry.turn_after->turn_before : any->turn_last) =
      entry.turn_before;
  entry.queued = false;
  release_if_empty(*any);
}

void MatchTable::add(Arrival& arrival) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = find_or_make(arrival.key, arrival.peer);
  arrival.next = nullptr;
  arrival.waiting = true;
  if (entry.first == nullptr) {
    entry.first = &arrival;
    join_turns(entry);
  } else {
    entry.last->next = &arrival;
  }
  entry.last = &arrival;
}

Arrival* MatchTable::pop_arrival(Entry& entry) {
  Arrival* arrival = entry.first;
  entry.first = arrival->next;
  arrival->next = nullptr;
  arrival->waiting = false;
  if (entry.first == nullptr) {
    entry.last = nullptr;
    leave_turns(entry);
    release_if_empty(entry);
  }
  return arrival;
}

Arrival* MatchTable::take(RecvOp& op, int peer) {
  const std::scoped_lock lock(mutex_);
  Entry* entry = find(op.key, peer);
  if (entry == nullptr || entry->first == nullptr) {
    return nullptr;
  }
  if (op.peer == kAnySource && entry->first->next != nullptr) {
    leave_turns(*entry);  // to the end of the queue: the others first
    join_turns(*entry);
  }
  op.source = peer;
  return pop_arrival(*entry);
}

Arrival* MatchTable::take_or_post(RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  op.order = next_order_++;
  Entry* entry = find(op.key, op.peer);
  if (entry != nullptr && entry->first != nullptr) {
    op.source = op.peer;
    return pop_arrival(*entry);
  }
  post(op);
  return nullptr;
}

void MatchTable::number(RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  op.order = next_order_++;
}

int MatchTable::turn_or_post(RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  op.order = next_order_++;
  Entry* any = find(op.key, kAnySource);
  if (any != nullptr && any->turn_first != nullptr) {
    return any->turn_first->peer;
  }
  post(op);
  return -1;
}

void MatchTable::post_again(RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  post(op);
}

std::optional<int> MatchTable::unsettled(const MessageKey& key) {
  const std::scoped_lock lock(mutex_);
  Entry* any = find(key, kAnySource);
  if (any == nullptr || any->posted_first == nullptr || any->turn_first == nullptr) {
    return std::nullopt;
  }
  return any->turn_first->peer;
}

MatchTable::Pair MatchTable::take_pair(const MessageKey& key, int peer) {
  const std::scoped_lock lock(mutex_);
  Entry* any = find(key, kAnySource);
  Entry* entry = find(key, peer);
  if (any == nullptr || any->posted_first == nullptr || entry == nullptr ||
      entry->first == nullptr) {
    return {};
  }
  Pair pair{.op = pop_posted(*any), .arrival = pop_arrival(*entry)};
  pair.op->source = peer;
  return pair;
}

bool MatchTable::unpost(RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  Entry* entry = find(op.key, op.peer);
  if (entry == nullptr) {
    return false;
  }
  RecvOp* before = nullptr;
  for (RecvOp* at = entry->posted_first; at != nullptr; before = at, at = at->next) {
    if (at != &op) {
      continue;
    }
    (before != nullptr ? before->next : entry->posted_first) = op.next;
    if (entry->posted_last == &op) {
      entry->posted_last = before;
    }
    op.next = nullptr;
    any_posted_ -= op.peer == kAnySource ? 1 : 0;
    release_if_empty(*entry);
    return true;
  }
  return false;
}

int MatchTable::source_of(const RecvOp& op) {
  const std::scoped_lock lock(mutex_);
  return op.source;
}

/// Takes the arrivals that `keep` refuses out of the entry. May release the entry.
template <typename Keep>
Arrival* MatchTable::extract(Entry& entry, Keep keep) {
  Arrival* taken = nullptr;
  Arrival** taken_end = &taken;
  Arrival** at = &entry.first;
  Arrival* last = nullptr;
  const bool had_arrivals = entry.first != nullptr;
  while (*at != nullptr) {
    Arrival* arrival = *at;
    if (keep(*arrival)) {
      last = arrival;
      at = &arrival->next;
      continue;
    }
    *at = arrival->next;
    arrival->next = nullptr;
    arrival->waiting = false;
    *taken_end = arrival;
    taken_end = &arrival->next;
  }
  entry.last = last;
  if (had_arrivals && entry.first == nullptr) {
    leave_turns(entry);
    release_if_empty(entry);
  }
  return taken;
}

bool MatchTable::remove(Arrival& arrival) {
  const std::scoped_lock lock(mutex_);
  if (!arrival.waiting) {
    return false;
  }
  Entry* entry = find(arrival.key, arrival.peer);
  ensure(entry != nullptr, "waiting arrival without an entry");
  extract(*entry, [&arrival](const Arrival& other) { return &other != &arrival; });
  return true;
}

/// Visits a snapshot of the entries: the visitor may release the one it is given, and with it the
/// any-source entry of its key, which visitors therefore leave alone.
template <typename Visit>
void MatchTable::for_each_entry(Visit visit) {
  std::vector<Entry*> found;
  for (Entry* entry : slots_) {
    for (; entry != nullptr; entry = entry->chain) {
      if (entry->peer != kAnySource) {
        found.push_back(entry);
      }
    }
  }
  for (Entry* entry : found) {
    visit(*entry);
  }
}

MatchTable::Lost MatchTable::lose_peer(int peer) {
  const std::scoped_lock lock(mutex_);
  Lost lost;
  for_each_entry([&](Entry& entry) {
    if (entry.peer != peer) {
      return;
    }
    if (entry.posted_first != nullptr) {
      entry.posted_last->next = lost.receives;
      lost.receives = entry.posted_first;
      entry.posted_first = entry.posted_last = nullptr;
    }
    if (entry.first == nullptr) {
      release_if_empty(entry);
      return;
    }
    Arrival* taken = extract(
        entry, [](const Arrival& arrival) { return arrival.form != Arrival::Form::announced; });
    while (taken != nullptr) {
      Arrival* const next = taken->next;
      taken->next = lost.arrivals;
      lost.arrivals = taken;
      taken = next;
    }
  });
  return lost;
}

std::vector<int> MatchTable::peers_of_group(std::uint64_t group) {
  const std::scoped_lock lock(mutex_);
  std::vector<int> peers;
  for_each_entry([&](Entry& entry) {
    if (entry.key.group == group && entry.first != nullptr) {
      peers.push_back(entry.peer);
    }
  });
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

Arrival* MatchTable::forget(std::uint64_t group, int peer) {
  const std::scoped_lock lock(mutex_);
  Arrival* forgotten = nullptr;
  for_each_entry([&](Entry& entry) {
    if (entry.peer != peer || entry.key.group != group || entry.first == nullptr) {
      return;
    }
    Arrival* taken = extract(entry, [](const Arrival&) { return false; });
    while (taken != nullptr) {
      Arrival* const next = taken->next;
      taken->next = forgotten;
      forgotten = taken;
      taken = next;
    }
  });
  return forgotten;
}

std::size_t MatchTable::size() {
  const std::scoped_lock lock(mutex_);
  return entries_.in_use();
}

}  // namespace tutti
