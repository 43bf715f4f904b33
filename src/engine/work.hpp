// WorkState: an asynchronous operation as its handles share it.
#pragma once

#include "base/failure.hpp"
#include "base/short_lock.hpp"

#include <tutti/tensor.hpp>
#include <tutti/work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

struct MessageItem;

/// Who makes progress while a handle is waited for: the lane that runs the operation.
class WorkDriver {
 public:
  WorkDriver() = default;
  WorkDriver(const WorkDriver&) = delete;
  WorkDriver& operator=(const WorkDriver&) = delete;
  virtual ~WorkDriver() = default;
  virtual std::shared_ptr<WorkDriver> self() = 0;
  /// Returns once `state` ended, or false when `timeout` passed first.
  virtual bool drive(WorkState& state, std::optional<std::chrono::milliseconds> timeout) = 0;
};

class WorkState {
 public:
  WorkState() = default;  ///< renew() makes it an operation
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;
  virtual ~WorkState() = default;

  bool ended() const { return status_.load(std::memory_order_acquire) != Status::pending; }
  bool succeeded() const { return status_.load(std::memory_order_acquire) == Status::succeeded; }
  /// Only after ended(): why it failed; empty text otherwise.
  const std::optional<Failure>& failure() const { return failure_; }
  int source() const { return source_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  const std::string& op() const { return op_; }
  std::uint64_t sequence() const { return sequence_; }
  WorkDriver& driver() { return *driver_; }
  /// The message, if it is one.
  virtual MessageItem* message() { return nullptr; }

  /// Ends the operation, once; runs the callbacks. No lock of the lane may be held; somebody else
  /// keeps this object alive meanwhile.
  void end(std::optional<Failure> failure);
  /// As end(), while nobody else knows of the operation yet.
  void end_unshared(std::optional<Failure> failure) {
    failure_ = std::move(failure);
    status_.store(failure_ ? Status::failed : Status::succeeded, std::memory_order_release);
  }
  void then(std::function<void()> callback);

  // For states that are used again (WorkPool). Memory of the parts is kept.
  void renew(WorkDriver& driver, std::string_view op);
  /// Lets go of everything that belongs to the caller.
  void let_go();

  // Filled by the lane before the state is shared, and by whoever completes it before end().
  void hold(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
  }
  void set_sequence(std::uint64_t sequence) { sequence_ = sequence; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  void set_source(int source) { source_ = source; }

 private:
  void call_back(const std::function<void()>& callback) const;

  enum class Status : std::uint8_t { pending, succeeded, failed };

  WorkDriver* driver_ = nullptr;  ///< kept by the pool
  std::string op_{};
  std::uint64_t sequence_ = 0;
  std::atomic<Status> status_{Status::pending};  // release by end(); acquire by the handles
  std::optional<Failure> failure_{};
  int source_ = -1;
  std::vector<Tensor> inputs_{};
  std::vector<Tensor> outputs_{};
  ShortLock mutex_;
  std::vector<std::function<void()>> callbacks_{};
};

}  // namespace tutti
