// Transport: finds the channel for each call, and polls them all. Locks, in the order they are
// taken: setup (adding channels and links), one channel, the match table. Handlers and the wake
// callback run with none of them held.
#include "transport/transport.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "transport/channel.hpp"
#include "transport/local_channel.hpp"
#include "transport/socket_set.hpp"

#include <tutti/options.hpp>

#include <mutex>
#include <type_traits>
#include <utility>

namespace tutti {
namespace {

/// Whether some thread may sleep.
enum class Sleep : std::uint8_t {
  none,
  armed,   ///< somebody armed since the last ring of the bell
  missed,  ///< nobody had, when an op of somebody else completed
};

void begin(SendOp& op) {
  op.moved = 0;
  op.state.store(TransferState::active, std::memory_order_relaxed);
}
void begin(RecvOp& op) {
  op.moved = 0;
  op.source = -1;
  op.state.store(TransferState::active, std::memory_order_relaxed);
}

void start(Channel& channel, SendOp& op, Events& events) { channel.send(op, events); }
void start(Channel& channel, RecvOp& op, Events& events) { channel.recv(op, events); }

}  // namespace

struct Transport::Internals {
  Internals(int own_rank, int size, FaultHandler handler)
      : rank(own_rank),
        world_size(size),
        on_fault(std::move(handler)),
        local(own_rank, table),
        channels(std::make_unique<std::atomic<Channel*>[]>(static_cast<std::size_t>(size))),
        polled(std::make_unique<std::atomic<Channel*>[]>(static_cast<std::size_t>(size))),
        sockets(size) {}

  Channel& channel(int peer);
  Channel* existing(int peer) const {
    ensure(peer >= 0 && peer < world_size, "peer outside the world");
    // acquire: pairs with the release in channel(); the channel is complete.
    return channels[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int peer = 0; peer < world_size; ++peer) {
      if (Channel* found = existing(peer)) {
        visit(*found);
      }
    }
  }
  template <typename Act>
  void act_on(int peer, Act act) {
    Channel& target = channel(peer);
    Events events;
    {
      const std::scoped_lock lock(target.mutex());
      act(target, events);
      sockets.watch(target);
    }
    finish(events);
  }
  /// The channel's lock is held.
  template <typename Op>
  void post_to(Channel& target, Op& op, Events& events) {
    begin(op);
    events.own = &op;
    start(target, op, events);
    sockets.watch(target);
  }
  void recv_from_anyone(RecvOp& op, Events& events);
  void settle(const MessageKey& key, Events& events);
  void finish(Events& events);
  void wake_for_completion();
  void wake_for_room();

  const int rank;
  const int world_size;
  const FaultHandler on_fault;
  std::function<void()> wake;
  ProbeHandler on_probe;
  MatchTable table;
  LocalChannel local;
  std::unique_ptr<std::atomic<Channel*>[]> channels;  // by peer; made when first needed

  std::mutex setup;
  std::vector<std::unique_ptr<Channel>> owned;  // setup
  // Channels whose link has no descriptor, in the order they got it; append only.
  std::unique_ptr<std::atomic<Channel*>[]> polled;
  std::atomic<std::size_t> polled_count{0};
  SocketSet sockets;  // adding: setup
  std::atomic<unsigned> busy_polls{0};
  std::atomic<Sleep> sleep{Sleep::none};
  std::atomic<bool> abandoned{false};
};

Channel& Transport::Internals::channel(int peer) {
  if (Channel* found = existing(peer)) {
    return *found;
  }
  const std::scoped_lock lock(setup);
  if (Channel* found = existing(peer)) {
    return *found;
  }
  owned.push_back(std::make_unique<Channel>(peer, table));
  channels[static_cast<std::size_t>(peer)].store(owned.back().get(), std::memory_order_release);
  return *owned.back();
}

void Transport::Internals::recv_from_anyone(RecvOp& op, Events& events) {
  // Each round that fails means that another receive took the message in between.
  for (int peer = table.turn_or_post(op); peer >= 0; peer = table.turn_or_post(op)) {
    if (peer == rank) {
      const std::scoped_lock lock(local.mutex());
      if (Arrival* arrival = table.take(op, peer)) {
        local.deliver(*arrival, op, events);
        return;
      }
      continue;
    }
    Channel& from = channel(peer);
    const std::scoped_lock lock(from.mutex());
    if (Arrival* arrival = table.take(op, peer)) {
      from.deliver(*arrival, op, events);
      sockets.watch(from);
      return;
    }
  }
}

/// Pairs receives from anyone that were posted again with arrivals that were there already.
void Transport::Internals::settle(const MessageKey& key, Events& events) {
  while (const std::optional<int> peer = table.unsettled(key)) {
    if (*peer == rank) {
      const std::scoped_lock lock(local.mutex());
      if (const auto pair = table.take_pair(key, *peer); pair.op != nullptr) {
        local.deliver(*pair.arrival, *pair.op, events);
      }
      continue;
    }
    Channel& from = channel(*peer);
    const std::scoped_lock lock(from.mutex());
    if (const auto pair = table.take_pair(key, *peer); pair.op != nullptr) {
      from.deliver(*pair.arrival, *pair.op, events);
      sockets.watch(from);
    }
  }
}

/// Acts on what happened, once no lock is held.
void Transport::Internals::finish(Events& events) {
  while (!events.unsettled.empty()) {
    const MessageKey key = events.unsettled.back();
    events.unsettled.pop_back();
    settle(key, events);
  }
  // Before faults: a peer explains first what it then fails the group for.
  if (on_probe) {
    for (const Events::Probe& probe : events.probes) {
      on_probe(probe.peer, probe.probe);
    }
  }
  if (on_fault) {
    for (const Events::Fault& fault : events.faults) {
      on_fault(fault.peer, fault.group, fault.failure);
    }
  }
  if (events.completed != 0) {
    wake_for_completion();
  } else if (events.stuck) {
    wake_for_room();
  }
}

// A ring of the bell costs more than a message, and mostly nobody sleeps. So it rings only if
// somebody armed; a completion that nobody was armed for leaves a mark, and who arms next rings for
// it, because a third thread may be between its last look at its op and its sleep.
void Transport::Internals::wake_for_completion() {
  Sleep seen = sleep.load(std::memory_order_relaxed);
  // acq_rel: either the exchange in arm() comes later, sees this mark and with it the op's state,
  // or it came earlier and is seen here.
  while (!sleep.compare_exchange_weak(seen, seen == Sleep::armed ? Sleep::none : Sleep::missed,
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  if (seen == Sleep::armed && wake) {
    wake();
  }
}

/// A link filled up after somebody armed, maybe without asking for room.
void Transport::Internals::wake_for_room() {
  Sleep seen = Sleep::armed;
  // acq_rel: as above; who arms later sees what the channel has to say under the channel's lock.
  if (sleep.compare_exchange_strong(seen, Sleep::none, std::memory_order_acq_rel,
                                    std::memory_order_relaxed) &&
      wake) {
    wake();
  }
}

Transport::Transport(int rank, int world_size, FaultHandler on_fault)
    : internals_(std::make_unique<Internals>(rank, world_size, std::move(on_fault))) {}

Transport::~Transport() {
  if (internals_->abandoned.load(std::memory_order_relaxed)) {
    return;
  }
  Events events;
  internals_->for_each([&](Channel& channel) {
    const std::scoped_lock lock(channel.mutex());
    channel.send_bye(events);
  });
}

void Transport::abandon() { internals_->abandoned.store(true, std::memory_order_relaxed); }

void Transport::set_wake_callback(std::function<void()> wake) {
  internals_->wake = std::move(wake);
}

void Transport::add_link(int peer, std::unique_ptr<Link> link) {
  Channel& channel = internals_->channel(peer);
  Events events;
  {
    const std::scoped_lock setup(internals_->setup);
    const std::scoped_lock lock(channel.mutex());
    channel.attach(std::move(link), events);
    if (channel.fd() < 0) {
      const std::size_t count = internals_->polled_count.load(std::memory_order_relaxed);
      internals_->polled[count].store(&channel, std::memory_order_relaxed);
      // release: pairs with the acquire in poll() and arm(); the entry is there.
      internals_->polled_count.store(count + 1, std::memory_order_release);
    } else {
      internals_->sockets.add(channel);
    }
  }
  internals_->finish(events);
}

void Transport::send(SendOp& op) {
  Events events{.own = &op};
  if (op.peer == internals_->rank) {
    begin(op);
    const std::scoped_lock lock(internals_->local.mutex());
    internals_->local.send(op, events);
  } else {
    Channel& channel = internals_->channel(op.peer);
    const std::scoped_lock lock(channel.mutex());
    internals_->post_to(channel, op, events);
  }
  internals_->finish(events);
}

void Transport::recv(RecvOp& op) {
  Events events{.own = &op};
  if (op.peer == kAnySource) {
    begin(op);
    internals_->recv_from_anyone(op, events);
  } else if (op.peer == internals_->rank) {
    begin(op);
    const std::scoped_lock lock(internals_->local.mutex());
    internals_->local.recv(op, events);
  } else {
    Channel& channel = internals_->channel(op.peer);
    const std::scoped_lock lock(channel.mutex());
    internals_->post_to(channel, op, events);
  }
  internals_->finish(events);
}

void Transport::post(std::size_t count, const std::function<AnyOp(std::size_t)>& op) {
  Events events;
  std::unique_lock<ShortLock> turn;  // of the channel of the ops before, if they had one
  const auto post_one = [&](auto* one) {
    if (one->peer == kAnySource || one->peer == internals_->rank) {
      turn = {};
      if constexpr (std::is_same_v<decltype(one), SendOp*>) {
        send(*one);
      } else {
        recv(*one);
      }
      return;
    }
    Channel& channel = internals_->channel(one->peer);
    if (turn.mutex() != &channel.mutex()) {
      turn = {};  // one lock at a time
      turn = std::unique_lock(channel.mutex());
    }
    internals_->post_to(channel, *one, events);
  };
  for (std::size_t i = 0; i < count; ++i) {
    std::visit(post_one, op(i));
  }
  turn = {};
  internals_->finish(events);
}

Transport::Early Transport::recv_early(RecvOp& op) {
  Channel* const channel =
      op.peer >= 0 && op.peer != internals_->rank ? internals_->existing(op.peer) : nullptr;
  if (channel == nullptr || !channel->may_recv_early()) {
    return Early::post;
  }
  Events events{.own = &op};
  bool met = false;
  if (const std::unique_lock lock(channel->mutex(), std::try_to_lock);
      lock.owns_lock() && channel->busy()) {
    begin(op);
    met = channel->recv_arrived(op, events);
    if (!met) {
      op.state.store(TransferState::idle, std::memory_order_relaxed);
    }
  }
  internals_->finish(events);
  return met ? Early::met : Early::later;
}

void Transport::cancel(SendOp& op) {
  Events events;
  bool found = false;
  if (op.peer == internals_->rank) {
    const std::scoped_lock lock(internals_->local.mutex());
    found = internals_->local.cancel(op);
  } else if (Channel* channel = internals_->existing(op.peer)) {
    const std::scoped_lock lock(channel->mutex());
    found = channel->cancel(op, events);
    internals_->sockets.watch(*channel);
  }
  if (found) {
    op.state.store(TransferState::idle, std::memory_order_relaxed);
  }
  internals_->finish(events);
}

void Transport::cancel(RecvOp& op) {
  // acquire: pairs with the release of the completion, after which the op is the caller's again.
  while (op.state.load(std::memory_order_acquire) == TransferState::active) {
    bool found = internals_->table.unpost(op);
    // Not posted: a message has met it, and its sender's lock holds the rest of the story. Only a
    // withdrawal in between can post it again; hence the loop.
    const int source = found ? -1 : internals_->table.source_of(op);
    if (source == internals_->rank) {
      const std::scoped_lock wait_for_copy(internals_->local.mutex());
    } else if (source >= 0) {
      Channel& channel = internals_->channel(source);
      const std::scoped_lock lock(channel.mutex());
      found = channel.cancel(op);
    }
    if (found) {
      op.state.store(TransferState::idle, std::memory_order_relaxed);
    }
  }
}

void Transport::forget_group(std::uint64_t group) {
  Events events;
  for (const int peer : internals_->table.peers_of_group(group)) {
    if (peer == internals_->rank) {
      const std::scoped_lock lock(internals_->local.mutex());
      internals_->local.forget(group, events);
      continue;
    }
    Channel& channel = internals_->channel(peer);
    const std::scoped_lock lock(channel.mutex());
    channel.forget(group, events);
    internals_->sockets.watch(channel);
  }
  internals_->finish(events);
}

void Transport::send_fault(int peer, std::uint64_t group, const Failure& failure) {
  if (peer == internals_->rank) {
    return;
  }
  internals_->act_on(
      peer, [&](Channel& channel, Events& events) { channel.send_fault(group, failure, events); });
}

void Transport::send_probe(int peer, const Probe& probe) {
  if (peer == internals_->rank) {
    return;
  }
  internals_->act_on(peer,
                     [&](Channel& channel, Events& events) { channel.send_probe(probe, events); });
}

void Transport::set_probe_handler(ProbeHandler handler) {
  internals_->on_probe = std::move(handler);
}

bool Transport::poll() {
  Events events;
  const std::size_t count = internals_->polled_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    Channel& channel = *internals_->polled[i].load(std::memory_order_relaxed);
    const std::unique_lock lock(channel.mutex(), std::try_to_lock);
    if (lock.owns_lock() && channel.busy()) {
      channel.pump(events);
    }
  }
  // A look at the sockets is a system call; while shared memory is busy it is made now and then.
  if (!events.moved || internals_->busy_polls.fetch_add(1, std::memory_order_relaxed) % 16 == 0) {
    internals_->sockets.poll(events);
  }
  const bool moved = events.moved || events.completed != 0;
  if (moved || events.stuck) {
    internals_->finish(events);
  }
  return moved;
}

bool Transport::arm() {
  // acq_rel: pairs with wake_for_completion().
  if (internals_->sleep.exchange(Sleep::armed, std::memory_order_acq_rel) == Sleep::missed) {
    if (internals_->wake) {
      internals_->wake();
    }
    return false;
  }
  const std::size_t count = internals_->polled_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    Channel& channel = *internals_->polled[i].load(std::memory_order_relaxed);
    const std::unique_lock lock(channel.mutex(), std::try_to_lock);
    if (!lock.owns_lock() || !channel.arm()) {
      return false;
    }
  }
  return true;
}

int Transport::poll_fd() const { return internals_->sockets.fd(); }

std::optional<Failure> Transport::failure(int peer) const {
  const Channel* channel = peer == internals_->rank ? nullptr : internals_->existing(peer);
  return channel != nullptr ? channel->failure() : std::nullopt;
}

void Transport::peer_died(int peer, const Failure& failure) {
  if (peer == internals_->rank) {
    return;
  }
  internals_->act_on(peer,
                     [&](Channel& channel, Events& events) { channel.peer_died(failure, events); });
}

std::string Transport::describe(int peer) const {
  if (peer == internals_->rank) {
    return "self";
  }
  const Channel* channel = internals_->existing(peer);
  return channel != nullptr ? channel->describe() : "no link yet";
}

std::size_t Transport::pending_sends() const {
  std::size_t pending = 0;
  internals_->for_each([&](Channel& channel) {
    const std::scoped_lock lock(channel.mutex());
    pending += channel.pending();
  });
  return pending;
}

}  // namespace tutti
