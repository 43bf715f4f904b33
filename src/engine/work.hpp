// WorkState: an asynchronous operation as its handles share it.
#pragma once

#include "base/failure.hpp"

#include <tutti/tensor.hpp>
#include <tutti/work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Who makes progress while a handle is waited for: the lane that runs the operation.
class WorkDriver {
 public:
  WorkDriver() = default;
  WorkDriver(const WorkDriver&) = delete;
  WorkDriver& operator=(const WorkDriver&) = delete;
  virtual ~WorkDriver() = default;
  /// Returns once `state` ended, or false when `timeout` passed first.
  virtual bool drive(WorkState& state, std::optional<std::chrono::milliseconds> timeout) = 0;
};

class WorkState {
 public:
  WorkState(std::shared_ptr<WorkDriver> driver, std::string op, std::uint64_t sequence)
      : driver_(std::move(driver)), op_(std::move(op)), sequence_(sequence) {}
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

  /// Ends the operation, once; runs the callbacks. No lock of the lane may be held; somebody else
  /// keeps this object alive meanwhile.
  void end(std::optional<Failure> failure);
  void then(std::function<void()> callback);

  // Filled by the lane before the state is shared, and by whoever completes it before end().
  void hold(std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
    inputs_ = std::move(inputs);
    outputs_ = std::move(outputs);
  }
  void hold_output(const Tensor& output) { outputs_.push_back(output); }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  void set_source(int source) { source_ = source; }

 private:
  void call_back(const std::function<void()>& callback) const;

  enum class Status : std::uint8_t { pending, succeeded, failed };

  std::shared_ptr<WorkDriver> driver_;
  std::string op_;
  std::uint64_t sequence_;
  std::atomic<Status> status_{Status::pending};  // release by end(); acquire by the handles
  std::optional<Failure> failure_{};
  int source_ = -1;
  std::vector<Tensor> inputs_{};
  std::vector<Tensor> outputs_{};
  std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_{};
};

}  // namespace tutti
