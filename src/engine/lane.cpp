#include "engine/lane.hpp"

#include "base/limits.hpp"
#include "engine/engine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

namespace tutti {

void CollectiveItem::reset() {
  work = nullptr;
  ended.store(false, std::memory_order_relaxed);
}

void CollectiveItem::let_go() {
  staging.let_go(kKeptScratchBytes);
  if (run.capacity() > kKeptScratchBytes) {
    run.release_memory();
  }
}

Lane::Lane(Engine& engine, std::unique_ptr<Place> place, LaneOptions options)
    : engine_(engine),
      fabric_(engine.fabric()),
      place_(std::move(place)),
      options_(std::move(options)),
      timeout_ms_(options_.timeout.count()),
      heard_(std::make_unique<std::atomic<std::uint64_t>[]>(place_->members.size())) {}

Lane::~Lane() = default;

OpContext Lane::context(std::string_view op, std::uint64_t sequence) const {
  return {.group = options_.name, .seat = place_->seat, .op = op, .sequence = sequence};
}

std::chrono::milliseconds Lane::timeout() const {
  return std::chrono::milliseconds(timeout_ms_.load(std::memory_order_relaxed));
}

void Lane::set_timeout(std::chrono::milliseconds timeout) {
  timeout_ms_.store(timeout.count(), std::memory_order_relaxed);
}

void Lane::refuse_if_failed(std::string_view op) const {
  if (engine_.abandoned()) [[unlikely]] {
    raise({.kind = ErrorKind::aborted,
           .text = fmt::format(
               "{}: this process was forked from the rank that made the group; only the "
               "parent may communicate on it",
               describe(context(op, sequence())))});
  }
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    const std::scoped_lock lock(failure_mutex_);
    Failure failure = *failure_;
    failure.text = fmt::format("{}: the group has failed: {}", describe(context(op, sequence())),
                               failure.text);
    raise(failure);
  }
}

/// The operation takes its place in the order of the group. Its call is there already.
void Lane::begin(CollectiveItem& item, const Request& request) {
  item.request = request;
  item.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  call_history_ = extend_history(call_history_, item.call.fingerprint);
  item.call.history = call_history_;
  item.timeout = request.timeout.value_or(timeout());
  item.deadline.reset();
  item.failure.reset();
  item.started = false;
}

bool Lane::repeat(const Request& request) {
  if (queued_.load(std::memory_order_acquire) != 0 || failed_.load(std::memory_order_acquire) ||
      engine_.abandoned() || !try_take_seat()) {
    return false;
  }
  if (queued_.load(std::memory_order_acquire) != 0 || !last_quiet_.is(request) ||
      !quiet_item_.run.rewind()) {
    leave_seat();
    return false;
  }
  begin(quiet_item_, request);
  quiet_item_.started = true;
  remember(quiet_item_);
  run_quiet(quiet_item_);
  return true;
}

void Lane::run(const Request& request, const Call& call) {
  refuse_if_failed(spec(request.op).name);
  if (queued_.load(std::memory_order_acquire) == 0 && try_take_seat()) {
    if (queued_.load(std::memory_order_acquire) == 0) {
      CollectiveItem& item = quiet_item_;
      last_quiet_.forget();
      item.call = call;
      begin(item, request);
      start_run(item);
      if (!item.staging.used()) {
        last_quiet_.note(request);
      }
      run_quiet(item);
      return;
    }
    leave_seat();
  }
  const auto work = collectives_pool_.get(*this, spec(request.op).name);
  CollectiveItem& item = work->item;
  {
    const std::scoped_lock lock(queue_mutex_);
    item.call = call;
    begin(item, request);
    push_back(work);
  }
  drive_until([&] { return item.ended.load(std::memory_order_acquire); }, std::nullopt);
  if (item.failure) {
    raise(*item.failure);
  }
}

std::shared_ptr<WorkState> Lane::start(const Request& request, const Call& call) {
  const std::string_view op = spec(request.op).name;
  refuse_if_failed(op);
  auto work = collectives_pool_.get(*this, op);
  CollectiveItem& item = work->item;
  const bool in_place = request.in.data() == request.out.data();
  work->hold(in_place ? std::span<const Tensor>{} : request.in, request.out);
  {
    const std::scoped_lock lock(queue_mutex_);
    item.call = call;
    begin(item, request);
    work->set_sequence(item.sequence);
    // The request may point to the caller's stack: from here on it points into the Work.
    item.request.out = work->outputs();
    item.request.in = in_place ? item.request.out : std::span<const Tensor>(work->inputs());
    item.request.in_rows = {};
    item.request.out_rows = {};
    item.work = work.get();
    push_back(work);
    visits_.fetch_add(1, std::memory_order_relaxed);
  }
  // A first push in the caller's thread: often enough to complete a small operation.
  poll();
  if (!work->ended()) {
    engine_.kick();
  }
  return work;
}

void Lane::leave_seat() {
  driver_.exchange(false, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
    const std::scoped_lock lock(handover_mutex_);
    handover_.notify_all();
  }
}

/// The lock of the queue is held.
void Lane::push_back(const std::shared_ptr<CollectiveWork>& work) {
  std::shared_ptr<CollectiveItem> item(work, &work->item);
  CollectiveItem* const added = item.get();
  (front_ ? back_->behind : front_) = std::move(item);
  back_ = added;
  queued_.fetch_add(1, std::memory_order_seq_cst);
}

CollectiveItem* Lane::front() {
  const std::scoped_lock lock(queue_mutex_);
  return front_.get();
}

/// Takes the front, which has ended, from the queue. Its Work ends once the seat is left: see
/// end().
std::shared_ptr<CollectiveItem> Lane::pop_front() {
  std::shared_ptr<CollectiveItem> item;
  {
    const std::scoped_lock lock(queue_mutex_);
    item = std::move(front_);
    front_ = std::move(item->behind);
    queued_.fetch_sub(1, std::memory_order_release);
  }
  item->ended.store(true, std::memory_order_release);
  return item;
}

/// Tells who waits. Not in the driver's seat: callbacks may use the group.
void Lane::end(const CollectiveItem& item) {
  if (item.work != nullptr) {
    item.work->end(item.failure);
  }
  if (waiters_.load(std::memory_order_seq_cst) != 0) {
    const std::scoped_lock lock(handover_mutex_);
    handover_.notify_all();
  }
}

/// Moves the front of the queue on; returns it if it ended. Driver only.
std::shared_ptr<CollectiveItem> Lane::advance_front() {
  CollectiveItem* item = front();
  if (item == nullptr) {
    return nullptr;
  }
  if (failed_.load(std::memory_order_acquire)) {
    look(*item);
  }
  run_queued(*item);
  if (!item->failure && !item->ended.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  return pop_front();
}

/// Starts the item if need be and advances it; sets `failure` or `ended` when it is over.
void Lane::run_queued(CollectiveItem& item) {
  if (item.failure) {
    return;
  }
  if (!item.started) {
    start_run(item);
  }
  if (item.run.advance()) {
    finish(item);
    item.ended.store(!item.failure, std::memory_order_relaxed);
  }
}

Selection Lane::choose(const Call& call) const {
  std::size_t largest = 0;
  for (const auto* side : {&call.in, &call.out}) {
    for (const BlockView& block : *side) {
      largest = std::max(largest, block.elements);
    }
  }
  return select({.op = call.op,
                 .dtype = call.dtype,
                 .reduce = call.reduce,
                 .block_bytes = largest * element_bytes(call.dtype),
                 .ranks = place_->seat.size,
                 .one_host = place_->one_host,
                 .two_level = place_->two_level,
                 .ranks_per_cpu = fabric_.ranks_per_cpu(),
                 .deterministic = options_.deterministic,
                 .pairwise_counts = call.pairwise_counts,
                 .uneven = call.uneven,
                 .forced = options_.algorithm},
                fabric_.tuning());
}

void Lane::start_run(CollectiveItem& item) {
  item.started = true;
  item.staging.prepare(item.request, place_->seat, item.call);
  remember(item);
  place_->plans.trim();
  const Call& call = item.call;
  const Selection selection = choose(call);
  if (selection.kind == Selection::Kind::message && selection.algorithm->sum == Sum::rank_order &&
      call.reduce == ReduceOp::premul_sum) {
    item.staging.scale(item.call);
  }
  item.run.start(*place_, selection, call, item.sequence);
}

/// The run ended: words its failure, or hands the results over.
void Lane::finish(CollectiveItem& item) {
  if (item.run.failed()) [[unlikely]] {
    const OpContext op = context(spec(item.call.op).name, item.sequence);
    item.failure = item.run.failure(op);
    if (const auto fault = fault_of_team(op)) {
      item.failure = fault;  // whoever failed first knows best
    }
    fail(*item.failure, Tell::others);
    item.failure = failure();
    return;
  }
  item.staging.finish();
}

/// Runs the started item to its end, leaves the driver's seat, and throws its failure.
void Lane::run_quiet(CollectiveItem& item) {
  run_to_end(item);
  if (!item.failure) [[likely]] {
    leave_seat();
    return;
  }
  last_quiet_.forget();
  const Failure failure = *item.failure;
  leave_seat();
  raise(failure);
}

void Lane::run_to_end(CollectiveItem& item) {
  if (!item.run.advance()) {
    Backoff backoff(fabric_.wait_policy(), load_);
    do {
      await(item, backoff);
      if (item.failure) {
        return;
      }
    } while (!item.run.advance());
  }
  finish(item);
}

template <class Done>
bool Lane::drive_until(Done done, std::optional<Deadline> deadline) {
  const Attendance attendance(*this);
  ForeignLoad load;
  Backoff backoff(fabric_.wait_policy(), load);
  while (!done()) {
    if (deadline && deadline->passed(std::chrono::steady_clock::now())) {
      return false;
    }
    if (!try_take_seat()) {
      if (!backoff.pause()) {
        std::unique_lock lock(handover_mutex_);
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        if (driver_.load(std::memory_order_seq_cst) && !done()) {
          handover_.wait_for(
              lock, deadline ? std::min<Duration>(limits::kSleepSlice,
                                                  deadline->left(std::chrono::steady_clock::now()))
                             : limits::kSleepSlice);
        }
        waiters_.fetch_sub(1, std::memory_order_seq_cst);
      }
      continue;
    }
    std::shared_ptr<CollectiveItem> ended;
    if (!done()) {
      ended = advance_front();
      if (ended) {
        backoff.restart();
      } else if (CollectiveItem* item = front(); item != nullptr && !done()) {
        Backoff turn(fabric_.wait_policy(), load_);
        await(*item, turn);
      } else if (!backoff.pause()) {
        std::this_thread::yield();  // another thread is about to end what is waited for
      }
    }
    leave_seat();
    if (ended) {
      end(*ended);
    }
  }
  return true;
}

bool Lane::drive(WorkState& state, std::optional<std::chrono::milliseconds> timeout) {
  std::optional<Deadline> deadline;
  if (timeout) {
    deadline = Deadline::after(*timeout);
  }
  if (MessageItem* message = state.message()) {
    if (settle(*message)) {
      return true;
    }
    const Attendance attendance(*this);
    return await_transfer(*message, deadline);
  }
  return drive_until([&] { return state.ended(); }, deadline);
}

bool Lane::poll() {
  bool moved = settle_messages();
  while (queued_.load(std::memory_order_acquire) != 0 && try_take_seat()) {
    const auto ended = advance_front();
    leave_seat();
    if (!ended) {
      break;
    }
    end(*ended);
    moved = true;
  }
  return moved;
}

bool Lane::has_work() const {
  // seq_cst: see Engine::rest_.
  return queued_.load(std::memory_order_seq_cst) != 0 ||
         message_count_.load(std::memory_order_seq_cst) != 0;
}

bool Lane::attended() {
  const std::uint32_t visits = visits_.load(std::memory_order_relaxed);
  const bool visited = visits != visits_seen_;
  visits_seen_ = visits;
  return visited || attendants_.load(std::memory_order_relaxed) != 0;
}

void Lane::register_bells() {
  if (queued_.load(std::memory_order_acquire) == 0 || !try_take_seat()) {
    return;
  }
  if (CollectiveItem* item = front();
      item != nullptr && item->started && item->run.obstacle().line) {
    place_->team->register_bell(*item->run.obstacle().blocked.epoch);
  }
  leave_seat();
}

void Lane::look_around() {
  if (queued_.load(std::memory_order_acquire) != 0 && try_take_seat()) {
    if (CollectiveItem* item = front(); item != nullptr && item->started) {
      look(*item);
    }
    leave_seat();
  }
  const TimePoint now = std::chrono::steady_clock::now();
  for (const auto& work : messages()) {
    look_at(work->item, now);
  }
}

std::optional<Failure> Lane::failure() const {
  const std::scoped_lock lock(failure_mutex_);
  return failure_;
}

void Lane::drain(Duration limit) {
  const Deadline deadline = Deadline::after(limit);
  drive_until([this] { return queued_.load(std::memory_order_acquire) == 0; }, deadline);
  for (;;) {
    // What was accepted is delivered; receives may be given up.
    const auto all = messages();
    const auto pending =
        std::ranges::find(all, Op::send, [](const auto& work) { return work->item.op; });
    if (pending == all.end() || !await_transfer((*pending)->item, deadline)) {
      break;
    }
  }
  if (has_work()) {
    fail({.kind = ErrorKind::aborted,
          .text = fmt::format("group '{}' was destroyed with operations in flight", options_.name)},
         Tell::nobody);
    poll();
  }
}

}  // namespace tutti
