// MessageItem: one point-to-point message on its way, with what has to be done when it arrived. A
// blocking call keeps it on its stack and nobody else knows of it; an asynchronous one is part of
// its Work, and listed in the lane.
#pragma once

#include "base/clock.hpp"
#include "engine/scratch.hpp"
#include "engine/work.hpp"
#include "plan/spec.hpp"
#include "transport/transport.hpp"

#include <tutti/tensor.hpp>

#include <atomic>
#include <cstdint>
#include <optional>

namespace tutti {

class MessageWork;

struct MessageItem {
  Op op = Op::send;
  SendOp send{};
  RecvOp recv{};
  const Tensor* tensor = nullptr;  ///< the caller's, or one of the Work's outputs
  Scratch staging{};               ///< row-major copy of a strided tensor
  bool staged = false;
  int peer = -1;  ///< group rank, or kAnySource
  std::uint64_t sequence = 0;
  Duration timeout{};
  std::optional<Deadline> deadline{};
  TimePoint waiting_since{};
  Duration next_report{};
  MessageWork* work = nullptr;  ///< null for a blocking call
  std::size_t place = 0;        ///< in the lane's list; its lock
  std::optional<Failure> failure{};
  std::atomic<bool> failure_set{false};
  int source = -1;       ///< group rank of the sender
  bool claimed = false;  ///< somebody turns the transport's verdict into ours; the list's lock
  std::atomic<bool> ended{false};

  TransferState state() const {
    return (op == Op::send ? send.state : recv.state).load(std::memory_order_acquire);
  }
  /// Whether there is a verdict. An op that was taken back is idle until its failure is set.
  bool is_over() const {
    const TransferState now = state();
    return (now != TransferState::active && now != TransferState::idle) ||
           failure_set.load(std::memory_order_acquire);
  }
  /// Of a state that is used again: back to what it was when it was made. prepare() sets the rest.
  void reset();
  /// Gives large memory back: nobody knows when the state will be used again.
  void let_go();
};

/// An asynchronous message.
class MessageWork final : public WorkState {
 public:
  MessageItem* message() override { return &item; }
  MessageItem item{};
};

}  // namespace tutti
