// Lane: the operations of one group on this rank, in order. Collectives queue and run one behind
// the other; point-to-point messages go their own way beside them.
//
// Who makes progress. At most one thread drives the lane: it alone touches the run in front. A
// blocking collective on a quiet lane becomes the driver, runs in the caller's thread and leaves;
// nothing is allocated and nobody is woken. A thread that waits for asynchronous work takes over as
// driver when there is none; the engine's background thread drives lanes that nobody waits for.
// Waiting and looking around (deadlines, dead peers, disagreement, reports of stalls) is in
// await().
#pragma once

#include "engine/collective_item.hpp"
#include "engine/message_item.hpp"
#include "engine/repeat.hpp"
#include "engine/work.hpp"
#include "engine/work_pool.hpp"
#include "plan/request.hpp"
#include "transport/wait.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class Engine;

struct LaneOptions {
  std::string name{};
  std::chrono::milliseconds timeout{};
  bool deterministic = false;
  std::string algorithm{};  ///< forced wherever it fits; empty: automatic
};

class Lane final : public WorkDriver, public std::enable_shared_from_this<Lane> {
 public:
  Lane(Engine& engine, std::unique_ptr<Place> place, LaneOptions options);
  ~Lane() override;

  // `call` is what validate() made of `request`; both are read before the function returns.

  /// Runs `request` to its end if it is the same call as the last one and nothing else is going on;
  /// false: nothing has happened, take the long way.
  bool repeat(const Request& request);
  /// Runs a collective to its end in this thread; throws its failure.
  void run(const Request& request, const Call& call);
  /// Starts a collective; returns at once.
  std::shared_ptr<WorkState> start(const Request& request, const Call& call);

  /// Sends or receives one message, blocking; returns the sender's group rank (receives).
  int transfer(const Request& request, const Call& call);
  /// Starts messages, at least one, in this order, and sets the handle of each.
  void start_transfers(std::span<const Message> messages,
                       std::span<std::shared_ptr<WorkState>> works);
  /// Messages of the library itself (monitored barrier), beside the user's tags. False: the
  /// deadline passed; throws if the group failed or the peer is gone.
  bool transfer_bytes(Op op, int peer, std::uint64_t tag, std::span<std::byte> bytes,
                      Deadline deadline);

  std::shared_ptr<WorkDriver> self() override { return shared_from_this(); }
  bool drive(WorkState& state, std::optional<std::chrono::milliseconds> timeout) override;
  /// Background: moves on what can be moved on; true if anything did.
  bool poll();
  /// Background, before sleeping: asks to be woken for what the lane waits for.
  void register_bells();
  /// Background, now and then: what a waiting thread would look at.
  void look_around();
  bool has_work() const;
  /// Background: whether some thread waits for work of this lane, or came for it since the last
  /// question.
  bool attended();
  /// A rank waits in a call: fails the group if this rank called something else there, or before.
  void compare(int world_rank, const Transport::Probe& probe);

  /// Ends everything in flight and everything to come. The first failure stays. `tell`: inform the
  /// other ranks.
  enum class Tell { nobody, others };
  void fail(const Failure& failure, Tell tell);
  std::optional<Failure> failure() const;
  /// Waits until nothing is in flight, at most `limit`; what is left then fails as aborted.
  void drain(Duration limit);

  const std::string& name() const { return options_.name; }
  const Place& place() const { return *place_; }
  /// Which algorithm runs `call`: the same on all ranks.
  Selection choose(const Call& call) const;
  Seat seat() const { return place_->seat; }
  std::uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }
  std::chrono::milliseconds timeout() const;
  void set_timeout(std::chrono::milliseconds timeout);
  bool deterministic() const { return options_.deterministic; }
  const LaneOptions& options() const { return options_; }

 private:
  OpContext context(std::string_view op, std::uint64_t sequence) const;
  void refuse_if_failed(std::string_view op) const;
  void begin(CollectiveItem& item, const Request& request);
  void run_quiet(CollectiveItem& item);
  void start_run(CollectiveItem& item);
  void finish(CollectiveItem& item);
  bool try_take_seat() { return !driver_.exchange(true, std::memory_order_acquire); }
  void leave_seat();
  void await(CollectiveItem& item, Backoff& backoff);
  bool may_have_moved(const CollectiveItem& item);
  void look(CollectiveItem& item);
  void sleep(const CollectiveItem& item);
  void report_stall(CollectiveItem& item, TimePoint now);
  void probe(CollectiveItem& item, TimePoint now);
  void send_calls(int world_rank, std::uint64_t sequence);
  std::vector<int> absent(const CollectiveItem& item) const;
  void remember(const CollectiveItem& item);
  std::optional<Transport::Probe> remembered(std::uint64_t sequence) const;
  std::optional<Failure> fault_of_team(const OpContext& context) const;
  void announce_fault(const Failure& failure);
  void run_to_end(CollectiveItem& item);
  void run_queued(CollectiveItem& item);
  std::shared_ptr<CollectiveItem> advance_front();
  void push_back(const std::shared_ptr<CollectiveWork>& work);
  CollectiveItem* front();
  std::shared_ptr<CollectiveItem> pop_front();
  void end(const CollectiveItem& item);
  template <class Done>
  bool drive_until(Done done, std::optional<Deadline> deadline);

  void prepare(MessageItem& item, const Request& request, std::uint64_t fingerprint,
               const Tensor& tensor);
  std::shared_ptr<MessageWork> make_work(const Message& message);
  bool end_at_once(MessageWork& work);
  void post(MessageItem& item);
  bool receive_early(MessageItem& item);
  void take_back(MessageItem& item);
  /// A message on the stack must not outlive it in the transport, whatever is thrown.
  struct TakeBack {
    TakeBack(Lane& owner, MessageItem& message) : lane(owner), item(message) {}
    TakeBack(const TakeBack&) = delete;
    TakeBack& operator=(const TakeBack&) = delete;
    ~TakeBack() {
      if (item.state() == TransferState::active) {
        lane.take_back(item);
      }
    }
    Lane& lane;
    MessageItem& item;
  };
  /// While it lives a thread waits here for work of the lane.
  struct Attendance {
    explicit Attendance(Lane& owner) : lane(owner) {
      lane.attendants_.fetch_add(1, std::memory_order_relaxed);
    }
    Attendance(const Attendance&) = delete;
    Attendance& operator=(const Attendance&) = delete;
    ~Attendance() {
      lane.visits_.fetch_add(1, std::memory_order_relaxed);
      lane.attendants_.fetch_sub(1, std::memory_order_relaxed);
    }
    Lane& lane;
  };
  std::uint64_t next_message() {
    return messages_started_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  void enlist(const std::shared_ptr<MessageWork>& work);
  std::shared_ptr<MessageWork> delist(MessageItem& item);
  std::vector<std::shared_ptr<MessageWork>> messages() const;
  bool settle(MessageItem& item);
  void conclude(MessageItem& item, TransferState state);
  void abort_transfer(MessageItem& item, const Failure& failure);
  void abort_with_group(MessageItem& item);
  bool settle_messages();
  Duration look_at(MessageItem& item, TimePoint now);
  void cancel_messages();
  int group_rank_of(int world_rank) const;
  bool await_transfer(MessageItem& item, std::optional<Deadline> deadline);

  Engine& engine_;
  Fabric& fabric_;
  std::unique_ptr<Place> place_;
  LaneOptions options_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> messages_started_{0};
  std::uint64_t call_history_ = 0;  // queue mutex, or driver of a quiet lane

  std::atomic<bool> driver_{false};  // acquire when taken, release when left: guards run state
  /// The last calls, for compare(); written by the driver, read by whoever gets a probe.
  struct Remembered {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::uint64_t> fingerprint{0};
    std::atomic<std::uint64_t> history{0};
  };
  std::array<Remembered, 64> history_{};
  /// Group rank -> latest call it told it is in, or has been in: it is not who keeps others there.
  std::unique_ptr<std::atomic<std::uint64_t>[]> heard_;
  TimePoint next_spread_{};      // driver only: see Team::spread
  ForeignLoad load_{};           // driver only
  CollectiveItem quiet_item_{};  // driver only
  Repeat last_quiet_{};          // driver only: the call in quiet_item_
  std::mutex queue_mutex_;
  WorkPool<CollectiveWork> collectives_pool_{};
  std::shared_ptr<CollectiveItem> front_{};  // of the queue, each item with the one behind it
  CollectiveItem* back_ = nullptr;
  std::atomic<std::size_t> queued_{0};
  std::mutex handover_mutex_;
  std::condition_variable handover_;
  std::atomic<int> waiters_{0};
  std::atomic<int> attendants_{0};        ///< threads that wait for work of this lane
  std::atomic<std::uint32_t> visits_{0};  ///< of threads that started or awaited work
  std::uint32_t visits_seen_ = 0;         ///< by the background thread

  WorkPool<MessageWork> messages_pool_{};
  mutable ShortLock messages_mutex_;  // the list, and who settles what is in it
  std::vector<std::shared_ptr<MessageWork>> messages_{};
  std::atomic<std::size_t> message_count_{0};

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Failure> failure_{};
};

}  // namespace tutti
