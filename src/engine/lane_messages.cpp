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
#include <iterator>

namespace tutti {
namespace {

/// Keeps the library's own messages apart from the user's tags and from collectives.
constexpr std::uint64_t kInternalTag = std::uint64_t{1} << 62;

std::string_view op_name(const MessageItem& item) { return spec(item.op).name; }

}  // namespace

void MessageItem::let_go() {
  if (staging.capacity() > kKeptScratchBytes) {
    staging.release();
  }
}

void MessageItem::reset() {
  // The transport's part; nobody else knows the item now.
  send.state.store(TransferState::idle, std::memory_order_relaxed);
  recv.state.store(TransferState::idle, std::memory_order_relaxed);
  deadline.reset();
  failure.reset();
  failure_set.store(false, std::memory_order_relaxed);
  source = -1;
  claimed = false;
  ended.store(false, std::memory_order_relaxed);
}

int Lane::group_rank_of(int world_rank) const {
  const auto found = std::find(place_->members.begin(), place_->members.end(), world_rank);
  return found == place_->members.end() ? -1 : static_cast<int>(found - place_->members.begin());
}

void Lane::prepare(MessageItem& item, const Request& request, std::uint64_t fingerprint,
                   const Tensor& tensor) {
  item.op = request.op;
  item.tensor = &tensor;
  item.peer = request.peer;
  item.timeout = request.timeout.value_or(timeout());
  item.staged = !tensor.is_contiguous();
  std::byte* data = item.staged ? item.staging.take(tensor.bytes()) : tensor.data_as<std::byte>();
  const int world = request.peer == kAnySource
                        ? kAnySource
                        : place_->members[static_cast<std::size_t>(request.peer)];
  const MessageKey key{place_->group, static_cast<std::uint64_t>(request.tag)};
  if (request.op == Op::send) {
    if (item.staged) {
      pack(tensor, data);
    }
    item.send.peer = world;
    item.send.key = key;
    item.send.stamp = fingerprint;
    item.send.data = data;
    item.send.bytes = tensor.bytes();
  } else {
    item.recv.peer = world;
    item.recv.key = key;
    item.recv.stamp = fingerprint;
    item.recv.data = data;
    item.recv.bytes = tensor.bytes();
  }
}

void Lane::post(MessageItem& item) {
  if (item.op == Op::send) {
    fabric_.transport().send(item.send);
  } else {
    fabric_.transport().recv(item.recv);
  }
}

void Lane::take_back(MessageItem& item) {
  if (item.op == Op::send) {
    fabric_.transport().cancel(item.send);
  } else {
    fabric_.transport().cancel(item.recv);
  }
}

/// Waits a while for a message without posting its receive: one that comes soon is copied straight
/// from the ring, and never entered anywhere. False: it has to be posted.
bool Lane::receive_early(MessageItem& item) {
  constexpr unsigned kLooksPerPoll = 8;  // others' messages must move as well, but less urgently
  if (item.op != Op::recv) {
    return false;
  }
  auto found = Transport::Early::later;
  const auto look = [&] {
    found = fabric_.transport().recv_early(item.recv);
    return found != Transport::Early::later;
  };
  ForeignLoad load;
  Backoff backoff(fabric_.wait_policy(), load);
  bool ended = look();
  for (unsigned looks = 1; !ended && backoff.pause(); ++looks) {
    if (looks % kLooksPerPoll == 0) {
      fabric_.transport().poll();
      if (failed_.load(std::memory_order_acquire)) {
        return false;
      }
    }
    ended = look();
  }
  return found == Transport::Early::met;
}

int Lane::transfer(const Request& request, const Call& call) {
  refuse_if_failed(spec(request.op).name);
  MessageItem item;
  const TakeBack guard(*this, item);
  item.sequence = next_message();
  prepare(item, request, call.fingerprint, request.op == Op::send ? request.in[0] : request.out[0]);
  if (!receive_early(item)) {
    post(item);
  }
  await_transfer(item, std::nullopt);
  if (item.failure) {
    raise(*item.failure);
  }
  return item.source;
}

/// The handle of a message, ready to be posted.
std::shared_ptr<MessageWork> Lane::make_work(const Message& message) {
  const Request& request = message.request;
  auto work = messages_pool_.get(*this, spec(request.op).name);
  work->item.sequence = next_message();
  work->set_sequence(work->item.sequence);
  work->hold({}, (request.op == Op::send ? request.in : request.out).first(1));
  work->item.work = work.get();
  prepare(work->item, request, message.fingerprint, work->outputs()[0]);
  return work;
}

/// Of a message that is over as soon as it is posted, as most small ones are: nobody has to hear of
/// it.
bool Lane::end_at_once(MessageWork& work) {
  MessageItem& item = work.item;
  if (!item.is_over()) {
    return false;
  }
  conclude(item, item.state());
  item.ended.store(true, std::memory_order_relaxed);
  work.set_source(item.source);
  work.end_unshared(item.failure);
  return true;
}

void Lane::start_transfers(std::span<const Message> messages,
                           std::span<std::shared_ptr<WorkState>> works) {
  refuse_if_failed(spec(messages.front().request.op).name);
  // First whatever counts and locks, for all of them, then the messages themselves: a
  // read-modify-write waits until all that was written before has reached its cache line, and the
  // lines of a message come from another CPU.
  std::ranges::transform(messages, works.begin(),
                         [this](const Message& message) { return make_work(message); });
  const auto item_of = [](const std::shared_ptr<WorkState>& work) -> MessageItem& {
    return static_cast<MessageWork&>(*work).item;
  };
  try {
    fabric_.transport().post(works.size(), [&](std::size_t i) -> Transport::AnyOp {
      MessageItem& item = item_of(works[i]);
      return item.op == Op::send ? Transport::AnyOp(&item.send) : Transport::AnyOp(&item.recv);
    });
  } catch (...) {
    for (const auto& work : works) {
      const TakeBack guard(*this, item_of(work));  // its memory goes with its handle
    }
    throw;
  }
  bool all_over = true;
  for (const auto& work : works) {
    if (!end_at_once(static_cast<MessageWork&>(*work))) {
      enlist(std::static_pointer_cast<MessageWork>(work));
      if (failed_.load(std::memory_order_acquire)) {
        abort_with_group(item_of(work));  // the group may have failed before it was listed
      }
      all_over &= settle(item_of(work));
    }
  }
  if (!all_over) {
    engine_.kick();
  }
}

/// Makes the message known to whoever looks after messages. Not before the transport has it: until
/// then it looks like one that was taken back.
void Lane::enlist(const std::shared_ptr<MessageWork>& work) {
  const std::scoped_lock lock(messages_mutex_);
  work->item.place = messages_.size();
  messages_.push_back(work);
  message_count_.fetch_add(1, std::memory_order_seq_cst);
  visits_.fetch_add(1, std::memory_order_relaxed);
}

/// The lock of the list is held.
std::shared_ptr<MessageWork> Lane::delist(MessageItem& item) {
  std::shared_ptr<MessageWork> work = std::move(messages_[item.place]);
  messages_[item.place] = std::move(messages_.back());
  messages_.pop_back();
  if (item.place < messages_.size()) {
    messages_[item.place]->item.place = item.place;
  }
  message_count_.fetch_sub(1, std::memory_order_release);
  return work;
}

std::vector<std::shared_ptr<MessageWork>> Lane::messages() const {
  const std::scoped_lock lock(messages_mutex_);
  return messages_;
}

/// Ends the item if the transport is done with it; true if it has ended, and its Work as well.
bool Lane::settle(MessageItem& item) {
  if (item.ended.load(std::memory_order_acquire)) {
    return item.work == nullptr || item.work->ended();  // another thread may be about to end it
  }
  if (!item.is_over()) {
    return false;
  }
  std::shared_ptr<MessageWork> work;
  if (item.work != nullptr) {
    const std::scoped_lock lock(messages_mutex_);
    if (item.claimed) {
      return item.work->ended();
    }
    item.claimed = true;
    work = delist(item);
  }
  conclude(item, item.state());
  // release: pairs with the acquire above; source and failure are final.
  item.ended.store(true, std::memory_order_release);
  if (work) {
    work->set_source(item.source);
    work->end(item.failure);
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
      unpack(item.recv.data, *item.tensor);
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
  std::vector<std::shared_ptr<MessageWork>> over;
  {
    const std::scoped_lock lock(messages_mutex_);
    std::ranges::copy_if(messages_, std::back_inserter(over),
                         [](const auto& work) { return work->item.is_over(); });
  }
  for (const auto& work : over) {
    settle(work->item);
  }
  return !over.empty();
}

/// Takes the message back and gives it a failure; settle() then ends it.
void Lane::abort_transfer(MessageItem& item, const Failure& failure) {
  take_back(item);
  {
    const std::scoped_lock lock(messages_mutex_);
    if (item.claimed || item.ended.load(std::memory_order_relaxed) ||
        item.state() == TransferState::done) {
      return;
    }
    item.failure = failure;
    item.failure_set.store(true, std::memory_order_release);
  }
  settle(item);
}

void Lane::cancel_messages() {
  for (const auto& work : messages()) {
    abort_with_group(work->item);
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
    const std::scoped_lock lock(messages_mutex_);
    if (item.claimed || item.ended.load(std::memory_order_relaxed)) {
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
  MessageItem item;
  const TakeBack guard(*this, item);
  item.op = op;
  item.peer = peer;
  item.timeout = deadline.left(std::chrono::steady_clock::now()) + std::chrono::seconds(1);
  item.send.peer = item.recv.peer = world;
  item.send.key = item.recv.key = key;
  item.send.data = item.recv.data = bytes.data();
  item.send.bytes = item.recv.bytes = bytes.size();
  post(item);
  if (!await_transfer(item, deadline)) {
    take_back(item);
    return item.state() == TransferState::done;
  }
  if (item.failure) {
    raise(*item.failure);
  }
  return true;
}

}  // namespace tutti
