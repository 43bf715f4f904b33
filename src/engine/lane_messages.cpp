// Point-to-point messages of a lane. They need no driver: whoever waits for one polls the
// transport.
#include "base/limits.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"
#include "engine/lane.hpp"
#include "tensor/pack.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti {
namespace {

/// Keeps the library's own messages apart from the user's tags and from collectives.
constexpr std::uint64_t kInternalTag = std::uint64_t{1} << 62;

std::string_view op_name(const MessageItem& item) { return spec(item.op).name; }

}  // namespace

int Lane::group_rank_of(int world_rank) const {
  const auto found = std::find(place_->members.begin(), place_->members.end(), world_rank);
  return found == place_->members.end() ? -1 : static_cast<int>(found - place_->members.begin());
}

std::shared_ptr<MessageItem> Lane::make_transfer(const Request& request, const Call& call) {
  const std::string_view op = spec(request.op).name;
  refuse_if_failed(op);
  auto item = std::make_shared<MessageItem>();
  item->sequence = messages_started_.fetch_add(1, std::memory_order_relaxed) + 1;
  item->op = request.op;
  item->tensor = request.op == Op::send ? request.in[0] : request.out[0];
  item->peer = request.peer;
  item->timeout = request.timeout.value_or(timeout());
  item->staged = !item->tensor.is_contiguous();
  std::byte* data =
      item->staged ? item->staging.take(item->tensor.bytes()) : item->tensor.data_as<std::byte>();
  const int world = request.peer == kAnySource
                        ? kAnySource
                        : place_->members[static_cast<std::size_t>(request.peer)];
  const MessageKey key{place_->group, static_cast<std::uint64_t>(request.tag)};
  if (request.op == Op::send) {
    if (item->staged) {
      pack(item->tensor, data);
    }
    item->send.peer = world;
    item->send.key = key;
    item->send.stamp = call.fingerprint;
    item->send.data = data;
    item->send.bytes = item->tensor.bytes();
  } else {
    item->recv.peer = world;
    item->recv.key = key;
    item->recv.stamp = call.fingerprint;
    item->recv.data = data;
    item->recv.bytes = item->tensor.bytes();
  }
  return item;
}

/// Gives the message to the transport, then makes it known to whoever looks after messages.
void Lane::launch(const std::shared_ptr<MessageItem>& item) {
  if (item->op == Op::send) {
    fabric_.transport().send(item->send);
  } else {
    fabric_.transport().recv(item->recv);
  }
  {
    const std::scoped_lock lock(messages_mutex_);
    messages_.push_back(item);
    message_count_.fetch_add(1, std::memory_order_release);
  }
  if (failed_.load(std::memory_order_acquire)) {
    abort_with_group(*item);  // the group may have failed before the message could be seen
  }
}

std::shared_ptr<WorkState> Lane::start_transfer(const Request& request, const Call& call) {
  auto item = make_transfer(request, call);
  auto work =
      std::make_shared<WorkState>(shared_from_this(), std::string(op_name(*item)), item->sequence);
  work->hold({}, {item->tensor});
  item->work = work;
  launch(item);
  if (!settle(*item)) {
    engine_.kick();
  }
  return work;
}

int Lane::transfer(const Request& request, const Call& call) {
  auto item = make_transfer(request, call);
  launch(item);
  await_transfer(*item, std::nullopt);
  if (item->failure) {
    raise(*item->failure);
  }
  return item->source;
}

/// Ends the item if the transport is done with it; true if it has ended.
bool Lane::settle(MessageItem& item) {
  if (item.ended.load(std::memory_order_acquire)) {
    return true;
  }
  if (!item.is_over()) {
    return false;
  }
  const TransferState state = item.state();
  std::shared_ptr<MessageItem> self;
  {
    const std::scoped_lock lock(item.settle_mutex);
    if (item.ended.load(std::memory_order_relaxed)) {
      return true;
    }
    conclude(item, state);
    const std::scoped_lock list_lock(messages_mutex_);
    const auto found = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const auto& other) { return other.get() == &item; });
    if (found != messages_.end()) {
      self = std::move(*found);
      messages_.erase(found);
      message_count_.fetch_sub(1, std::memory_order_release);
    }
    item.tensor = {};
    item.ended.store(true, std::memory_order_release);
  }
  if (item.work) {
    item.work->set_source(item.source);
    item.work->end(item.failure, item.work);
  }
  return true;
}

/// What the end of the transfer means: data to unpack, a sender, or a failure.
void Lane::conclude(MessageItem& item, TransferState state) {
  const OpContext op = context(op_name(item), item.sequence);
  if (item.op == Op::recv && state != TransferState::active && item.recv.source >= 0) {
    item.source = group_rank_of(item.recv.source);
  }
  if (item.failure) {
    return;
  }
  if (state == TransferState::done) {
    if (item.op == Op::recv && item.staged) {
      unpack(item.recv.data, item.tensor);
    }
    return;
  }
  if (state == TransferState::mismatch) {
    item.failure = Failure{
        .kind = ErrorKind::mismatch,
        .text = describe_difference(op, item.recv.stamp, item.recv.their_stamp, item.source),
        .peer = item.source};
    return;
  }
  const int rank = item.op == Op::recv && item.source >= 0 ? item.source : item.peer;
  const auto cause =
      rank < 0 ? std::nullopt : fabric_.failure(place_->members[static_cast<std::size_t>(rank)]);
  item.failure = Failure{.kind = ErrorKind::peer_lost,
                         .text = fmt::format("{}: rank {} is gone ({})", describe(op), rank,
                                             cause ? cause->text : "no longer reachable"),
                         .peer = rank};
}

bool Lane::settle_messages() {
  if (message_count_.load(std::memory_order_acquire) == 0) {
    return false;
  }
  std::vector<std::shared_ptr<MessageItem>> over;
  {
    const std::scoped_lock lock(messages_mutex_);
    for (const auto& item : messages_) {
      if (item->is_over()) {
        over.push_back(item);
      }
    }
  }
  for (const auto& item : over) {
    settle(*item);
  }
  return !over.empty();
}

std::shared_ptr<MessageItem> Lane::transfer_of(const WorkState& state) {
  const std::scoped_lock lock(messages_mutex_);
  for (const auto& item : messages_) {
    if (item->work.get() == &state) {
      return item;
    }
  }
  return nullptr;
}

/// Takes the message back and gives it a failure; settle() then ends it.
void Lane::abort_transfer(MessageItem& item, const Failure& failure) {
  if (item.op == Op::send) {
    fabric_.transport().cancel(item.send);
  } else {
    fabric_.transport().cancel(item.recv);
  }
  {
    const std::scoped_lock lock(item.settle_mutex);
    if (item.ended.load(std::memory_order_relaxed) || item.state() == TransferState::done) {
      return;
    }
    item.failure = failure;
    item.failure_set.store(true, std::memory_order_release);
  }
  settle(item);
}

void Lane::cancel_messages() {
  std::vector<std::shared_ptr<MessageItem>> pending;
  {
    const std::scoped_lock lock(messages_mutex_);
    pending.assign(messages_.begin(), messages_.end());
  }
  for (const auto& item : pending) {
    abort_with_group(*item);
  }
}

/// The group has failed: so does the message, and says so.
void Lane::abort_with_group(MessageItem& item) {
  Failure cause = failure().value_or(Failure{});
  cause.text = fmt::format("{}: the group has failed: {}",
                           describe(context(op_name(item), item.sequence)), cause.text);
  abort_transfer(item, cause);
}

/// Looks at what can end the wait for a message badly. Returns the time left until its deadline.
Duration Lane::look_at(MessageItem& item, TimePoint now) {
  const OpContext op = context(op_name(item), item.sequence);
  const std::string who = item.peer == kAnySource ? "any rank" : fmt::format("rank {}", item.peer);
  Duration left{};
  std::optional<Failure> found = fault_of_team(op);
  {
    const std::scoped_lock lock(item.settle_mutex);
    if (item.ended.load(std::memory_order_relaxed)) {
      return Duration::zero();
    }
    if (!item.deadline) {
      item.deadline = Deadline(now, item.timeout);
      item.waiting_since = now;
      item.next_report = limits::kFirstStallReport;
    }
    left = item.deadline->left(now);
    if (now - item.waiting_since >= item.next_report) {
      const auto waited =
          std::chrono::duration_cast<std::chrono::seconds>(now - item.waiting_since);
      log_line(fmt::format("{}: waiting for {} for {} s", describe(op), who, waited.count()));
      item.next_report *= 2;
    }
  }
  if (!found && left == Duration::zero()) {
    found = Failure{.kind = ErrorKind::timeout,
                    .text = fmt::format("{}: nothing from {} for {:.1f} s", describe(op), who,
                                        std::chrono::duration<double>(item.timeout).count()),
                    .peer = item.peer};
  }
  if (found) {
    fail(*found, Tell::others);  // ends this message as well; no lock may be held
  }
  return left;
}

bool Lane::await_transfer(MessageItem& item, std::optional<Deadline> deadline) {
  ForeignLoad load;
  Backoff backoff(fabric_.wait_policy(), load);
  while (!settle(item)) {
    if (fabric_.transport().poll()) {
      backoff.restart();
      continue;
    }
    if (backoff.pause()) {
      continue;
    }
    const TimePoint now = std::chrono::steady_clock::now();
    if (deadline && deadline->passed(now)) {
      return false;
    }
    fabric_.look_at_peers();
    const Duration left = look_at(item, now);
    if (failed_.load(std::memory_order_acquire)) {
      abort_with_group(item);
      continue;
    }
    if (queued_.load(std::memory_order_acquire) != 0) {
      poll();
    }
    auto sleeper = fabric_.lease_sleeper();
    if (fabric_.wait_policy().sleep && fabric_.transport().arm() && !fabric_.transport().poll() &&
        !item.is_over() && !item.ended.load(std::memory_order_acquire)) {
      const Duration limit = deadline ? deadline->left(now) : Duration(limits::kSleepSlice);
      sleeper->sleep(std::min<Duration>({limits::kSleepSlice, limit, left}));
    } else if (!fabric_.wait_policy().sleep) {
      backoff.restart();
    }
    fabric_.return_sleeper(std::move(sleeper));
  }
  return true;
}

bool Lane::transfer_bytes(Op op, int peer, std::uint64_t tag, std::span<std::byte> bytes,
                          Deadline deadline) {
  const int world = place_->members[static_cast<std::size_t>(peer)];
  const MessageKey key{place_->group, kInternalTag | tag};
  auto item = std::make_shared<MessageItem>();
  item->op = op;
  item->peer = peer;
  item->timeout = deadline.left(std::chrono::steady_clock::now()) + std::chrono::seconds(1);
  if (op == Op::send) {
    item->send.peer = world;
    item->send.key = key;
    item->send.data = bytes.data();
    item->send.bytes = bytes.size();
    fabric_.transport().send(item->send);
  } else {
    item->recv.peer = world;
    item->recv.key = key;
    item->recv.data = bytes.data();
    item->recv.bytes = bytes.size();
    fabric_.transport().recv(item->recv);
  }
  if (!await_transfer(*item, deadline)) {
    if (op == Op::send) {
      fabric_.transport().cancel(item->send);
    } else {
      fabric_.transport().cancel(item->recv);
    }
    return item->state() == TransferState::done;
  }
  if (item->failure) {
    raise(*item->failure);
  }
  return true;
}

}  // namespace tutti
