// MessageRun executes a message plan over the transport: rounds of sends and receives, cut into
// messages, with the local steps between them. Like DirectRun it never waits itself.
//
// Messages. A step's range becomes one message per stretch of blocks that is contiguous on every
// rank: for operations that cut one tensor into shares a stretch is a run of blocks up to the
// wrap-around, else a single block. Long messages are cut at kMessageBytes. Sender and receiver
// compute the same cut.
//
// What is to be combined is received into a window of kWindowBytes at most, and combined while it
// is still in the cache and the next messages are on their way. A message gets its place in the
// window once the one before it there was combined; so the window also bounds what is in flight.
#pragma once

#include "engine/scratch.hpp"
#include "kernels/reduce.hpp"
#include "plan/plan.hpp"
#include "plan/request.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tutti {

inline constexpr std::size_t kMessageBytes = std::size_t{128} << 10;
inline constexpr std::size_t kWindowBytes = std::size_t{2} << 20;

/// How a run ended badly, as the run knows it; the lane words the message.
struct RunFailure {
  enum class Kind : std::uint8_t { none, mismatch, bytes, lost } kind = Kind::none;
  int peer = -1;                   ///< index in the run's members
  std::uint64_t theirs = 0;        ///< mismatch: their fingerprint
  std::size_t expected_bytes = 0;  ///< bytes: this rank's and theirs
  std::size_t actual_bytes = 0;
};

class MessageRun {
 public:
  MessageRun() = default;
  MessageRun(const MessageRun&) = delete;
  MessageRun& operator=(const MessageRun&) = delete;

  /// `members` are world ranks by seat. `call` and `plan` stay in place until the run ended.
  void start(Transport& transport, const Plan& plan, const Call& call, Seat seat,
             const std::vector<int>& members, MessageKey key);
  /// Runs on; true when it ended, well or not (failure().kind); false while messages are under way.
  bool advance();
  const RunFailure& failure() const { return failure_; }
  /// Takes every message back from the transport.
  void cancel();
  /// Seats whose message this rank still waits for, or that have not taken one of its own.
  std::vector<int> waiting_for() const;
  std::size_t bytes_done() const { return bytes_done_; }
  std::size_t bytes_total() const { return bytes_total_; }
  std::size_t capacity() const {
    return acc_memory_.capacity() + hold_memory_.capacity() + incoming_memory_.capacity();
  }
  void release_memory() {
    acc_memory_.release();
    hold_memory_.release();
    incoming_memory_.release();
  }

 private:
  struct Stretch {
    std::byte* data = nullptr;
    std::size_t elements = 0;
  };
  struct Incoming {
    RecvOp op{};
    std::byte* target = nullptr;  ///< recv_reduce: where to combine; null: op.data is the place
    std::size_t elements = 0;
    int seat = -1;
    bool combined = false;
  };

  void lay_out_buffers();
  const BlockView& block(Buffer buffer, int index) const;
  std::size_t bytes_per_element(Buffer buffer) const;
  void stretches(const Range& range, std::vector<Stretch>& out) const;
  void begin_round(const Round& round);
  bool is_exchange(const Round& round, const Step& receive);
  void run_local(const Step& step);
  void reduce_held(const Step& step);
  void list_receives(const Step& step);
  void post_receives();
  void post_sends(const Step& step);
  bool sends_done();
  bool receives_done();
  void combine(Incoming& incoming);
  bool inspect(const Incoming& incoming, TransferState state);

  Transport* transport_ = nullptr;
  const Plan* plan_ = nullptr;
  const Call* call_ = nullptr;
  const std::vector<int>* members_ = nullptr;
  Seat seat_{};
  MessageKey key_{};
  ReduceKernel combine_ = nullptr;
  bool cuts_ = false;
  bool started_round_ = false;
  std::size_t round_ = 0;
  std::vector<BlockView> in_{};
  std::vector<BlockView> out_{};
  std::vector<BlockView> acc_{};
  std::vector<BlockView> hold_{};
  Scratch acc_memory_{};
  Scratch hold_memory_{};
  Scratch incoming_memory_{};
  std::size_t incoming_used_ = 0;
  bool exchange_ = false;       ///< the round combines blocks that it also sends
  std::size_t window_ = 0;      ///< messages that may wait to be combined; 0: any number
  std::deque<SendOp> sends_{};  ///< objects are reused; their addresses must not change
  std::deque<Incoming> receives_{};
  std::size_t send_count_ = 0;
  std::size_t receive_count_ = 0;  ///< of the round
  std::size_t receives_posted_ = 0;
  std::size_t receives_finished_ = 0;  ///< this many from the first on have ended
  std::size_t sends_finished_ = 0;
  std::vector<Stretch> pieces_{};
  std::vector<Stretch> target_pieces_{};
  std::size_t bytes_done_ = 0;
  std::size_t bytes_total_ = 0;
  RunFailure failure_{};
};

}  // namespace tutti
