// The lane's waiting: spin, yield, look around, sleep. What is looked at: failure of the group,
// other ranks' fault lines, disagreement, dead peers, the deadline, and whether to report a stall.
#include "base/limits.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"
#include "engine/lane.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tutti {

namespace {

// The scheduler may leave ranks on one CPU for long while another one has room.
constexpr Duration kSpreadInterval = std::chrono::milliseconds(2);

}  // namespace

/// Whether what the run waits for may have come. Never blocks.
bool Lane::may_have_moved(const CollectiveItem& item) {
  const Obstacle& obstacle = item.run.obstacle();
  if (!obstacle.line) {
    return fabric_.transport().poll();
  }
  if (message_count_.load(std::memory_order_relaxed) != 0) {
    // Own messages may have to move before the others can come here.
    fabric_.transport().poll();
    settle_messages();
  }
  return reached(*obstacle.blocked.epoch, obstacle.blocked.target);
}

/// Waits until the run may be able to go on, or sets item.failure. Driver only.
void Lane::await(CollectiveItem& item, Backoff& backoff) {
  const bool crowded = item.run.obstacle().line && fabric_.wait_policy().crowded;
  for (;;) {
    if (may_have_moved(item)) {
      backoff.restart();
      return;
    }
    if (backoff.pause(crowded && item.run.holds_up_others())) {
      if (crowded && backoff.last_yield() > next_spread_) {
        next_spread_ = backoff.last_yield() + kSpreadInterval;
        place_->team->spread();
      }
      continue;
    }
    look(item);
    if (item.failure) {
      return;
    }
    sleep(item);
    if (!fabric_.wait_policy().sleep) {
      backoff.restart();
    }
    return;
  }
}

void Lane::sleep(const CollectiveItem& item) {
  if (!fabric_.wait_policy().sleep) {
    return;
  }
  const Duration left = item.deadline->left(std::chrono::steady_clock::now());
  const Duration limit = std::min<Duration>(limits::kSleepSlice, left);
  const Obstacle& obstacle = item.run.obstacle();
  const bool messages = message_count_.load(std::memory_order_relaxed) != 0;
  if (obstacle.line && !messages) {
    Epoch& epoch = *obstacle.blocked.epoch;
    const std::uint32_t registration = place_->team->register_futex(epoch);
    // seq_cst: not before the registration, which a post that comes later then sees.
    if (!reached(epoch.value.load(std::memory_order_seq_cst), obstacle.blocked.target)) {
      futex_sleep(epoch, registration, limit);
    }
    return;
  }
  if (obstacle.line) {
    place_->team->register_bell(*obstacle.blocked.epoch);
  }
  auto sleeper = fabric_.lease_sleeper();
  if (fabric_.transport().arm() && !may_have_moved(item)) {
    sleeper->sleep(limit);
  }
  fabric_.return_sleeper(std::move(sleeper));
}

/// Looks at everything that can end the wait badly. Driver only.
void Lane::look(CollectiveItem& item) {
  const OpContext op = context(spec(item.call.op).name, item.sequence);
  const TimePoint now = std::chrono::steady_clock::now();
  if (!item.deadline) {
    item.deadline = Deadline(now, item.timeout);
    item.waiting_since = now;
    item.next_report = limits::kFirstStallReport;
    item.next_probe = limits::kFirstProbe;
  }
  fabric_.look_at_peers();
  fabric_.transport().poll();
  std::optional<Failure> found;
  if (const auto earlier = failure()) {
    found = *earlier;
    found->text = fmt::format("{}: the group has failed: {}", describe(op), earlier->text);
    item.run.cancel();
    item.failure = std::move(found);
    return;
  }
  found = fault_of_team(op);
  if (!found && item.started) {
    found = item.run.inspect(op);
  }
  if (!found && item.deadline->passed(now)) {
    const std::vector<int> missing = absent(item);
    found = Failure{
        .kind = ErrorKind::timeout,
        .text = fmt::format("{}: nothing from rank {} for {:.1f} s, {}; last completed here: #{}",
                            describe(op), fmt::join(missing, ", "),
                            std::chrono::duration<double>(item.timeout).count(),
                            item.run.progress(), item.sequence - 1),
        .peer = missing.empty() ? -1 : missing.front()};
  }
  if (found) {
    item.run.cancel();
    fail(*found, Tell::others);
    item.failure = failure();
    return;
  }
  probe(item, now);
  report_stall(item, now);
}

void Lane::remember(const CollectiveItem& item) {
  Remembered& entry = history_[item.sequence % history_.size()];
  entry.sequence.store(0, std::memory_order_relaxed);
  entry.fingerprint.store(item.call.fingerprint, std::memory_order_release);
  entry.history.store(item.call.history, std::memory_order_release);
  entry.sequence.store(item.sequence, std::memory_order_release);
}

/// What this rank called then, if it is not too long ago.
std::optional<Transport::Probe> Lane::remembered(std::uint64_t sequence) const {
  const Remembered& entry = history_[sequence % history_.size()];
  // acquire pairs with the release stores of remember(); a changed sequence means it was reused.
  if (sequence == 0 || entry.sequence.load(std::memory_order_acquire) != sequence) {
    return std::nullopt;
  }
  const Transport::Probe probe{.call = {place_->group, sequence},
                               .stamp = entry.fingerprint.load(std::memory_order_acquire),
                               .history = entry.history.load(std::memory_order_acquire)};
  return entry.sequence.load(std::memory_order_acquire) == sequence ? std::optional(probe)
                                                                    : std::nullopt;
}

/// Ranks that disagree may wait for messages that never come, or in different protocols: whoever
/// waits a while tells the others what it called, and they compare. In a plan of messages a rank
/// may wait for one that itself waits for a third: so all are told, and those that answer are not
/// the missing ones.
void Lane::probe(CollectiveItem& item, TimePoint now) {
  if (!item.started || now - item.waiting_since < item.next_probe) {
    return;
  }
  item.next_probe *= 2;
  std::vector<int> ranks = item.run.missing();
  if (!item.run.obstacle().line) {
    ranks.resize(place_->members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  for (const int rank : ranks) {
    send_calls(place_->members[static_cast<std::size_t>(rank)], item.sequence);
  }
}

/// Tells what this rank called up to `sequence`: the oldest first, so that who differs finds where
/// it began.
void Lane::send_calls(int world_rank, std::uint64_t sequence) {
  constexpr std::uint64_t kCalls = 16;
  for (std::uint64_t back = std::min(kCalls, sequence); back-- > 0;) {
    if (const auto call = remembered(sequence - back)) {
      fabric_.transport().send_probe(world_rank, *call);
    }
  }
}

void Lane::compare(int world_rank, const Transport::Probe& theirs) {
  const std::uint64_t sequence = theirs.call.tag;
  const auto own = remembered(sequence);
  if (!own || failed_.load(std::memory_order_acquire)) {
    return;
  }
  const int rank = group_rank_of(world_rank);
  if (rank < 0) {
    return;
  }
  if (own->history == theirs.history) {
    std::atomic<std::uint64_t>& heard = heard_[static_cast<std::size_t>(rank)];
    std::uint64_t before = heard.load(std::memory_order_relaxed);
    while (before < sequence &&
           !heard.compare_exchange_weak(before, sequence, std::memory_order_relaxed)) {
    }
    if (before < sequence) {  // news; answered once
      fabric_.transport().send_probe(world_rank, *own);
    }
    return;
  }
  const OpContext op = context(spec(unpack_fingerprint(own->stamp).op).name, sequence);
  // Histories that differ after equal calls: it went wrong longer ago than anybody remembers.
  std::string text = own->stamp != theirs.stamp
                         ? describe_difference(op, own->stamp, theirs.stamp, rank)
                         : fmt::format(
                               "{}: rank {} and this rank called different operations before; "
                               "every rank must call the same operations in the same order",
                               describe(op), rank);
  fail({.kind = ErrorKind::mismatch, .text = std::move(text), .peer = rank}, Tell::others);
}

/// The ranks that keep `item` waiting, as far as this rank can tell: those that none of the others
/// has heard of, else those it waits for itself.
std::vector<int> Lane::absent(const CollectiveItem& item) const {
  std::vector<int> silent;
  for (int rank = 0; rank < place_->seat.size; ++rank) {
    if (rank != place_->seat.rank &&
        heard_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed) < item.sequence) {
      silent.push_back(rank);
    }
  }
  const bool answered = static_cast<int>(silent.size()) < place_->seat.size - 1;
  return answered && !silent.empty() && !item.run.obstacle().line ? silent : item.run.missing();
}

void Lane::report_stall(CollectiveItem& item, TimePoint now) {
  if (now - item.waiting_since < item.next_report) {
    return;
  }
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - item.waiting_since);
  log_line(fmt::format("{}: waiting for rank {} for {} s",
                       describe(context(spec(item.call.op).name, item.sequence)),
                       fmt::join(absent(item), ", "), waited.count()));
  item.next_report *= 2;
}

/// What a member of the team wrote when it failed the group.
std::optional<Failure> Lane::fault_of_team(const OpContext& op) const {
  if (!place_->team) {
    return std::nullopt;
  }
  for (int k = 0; k < place_->team->seat().size; ++k) {
    const FaultLine& fault = place_->team->area(k).fault;
    if (k == place_->team->seat().rank || !reached(fault.line, 1)) {
      continue;
    }
    const std::size_t bytes = std::min<std::size_t>(fault.text_bytes, sizeof fault.text);
    const int rank = place_->team_ranks[static_cast<std::size_t>(k)];
    const auto kind = fault.kind <= static_cast<std::uint32_t>(ErrorKind::internal)
                          ? static_cast<ErrorKind>(fault.kind)
                          : ErrorKind::internal;
    return Failure{.kind = kind,
                   .text = fmt::format("{}: rank {} failed the group: {}", describe(op), rank,
                                       std::string_view(fault.text, bytes)),
                   .peer = fault.peer};
  }
  return std::nullopt;
}

void Lane::announce_fault(const Failure& failure) {
  if (place_->team) {
    FaultLine& fault = place_->team->own().fault;
    fault.kind = static_cast<std::uint32_t>(failure.kind);
    fault.peer = failure.peer;
    fault.text_bytes = static_cast<std::uint32_t>(std::min(failure.text.size(), sizeof fault.text));
    std::memcpy(fault.text, failure.text.data(), fault.text_bytes);
    place_->team->post(fault.line, 1);
  }
  for (const int member : place_->members) {
    if (member != fabric_.rank()) {
      fabric_.transport().send_fault(member, place_->group, failure);
    }
  }
}

void Lane::fail(const Failure& failure, Tell tell) {
  {
    const std::scoped_lock lock(failure_mutex_);
    if (failure_) {
      return;  // the first failure stays
    }
    failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  if (tell == Tell::others) {
    announce_fault(failure);
  }
  cancel_messages();
  fabric_.ring_own_bell();
  engine_.kick();
}

}  // namespace tutti
