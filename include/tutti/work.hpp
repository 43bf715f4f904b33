// Work: a handle on an operation in flight.
#pragma once

#include <tutti/tensor.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Declared before the visible part: they stay private to the library.
namespace tutti {
class WorkState;  // private: src/engine/work.hpp
}  // namespace tutti

#pragma GCC visibility push(default)
namespace tutti {

/// A handle on an operation in flight. Copies share the operation; it holds every tensor it reads
/// or writes until it completes, so dropping the handle or the tensors is safe. Dropping an
/// unfinished Work neither waits nor cancels.
class [[nodiscard]] Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  /// Blocks until the operation is done; rethrows its error. Cheap when called again. With
  /// `timeout`, throws Timeout when it passes first: only the waiting ends, the operation goes on.
  void wait(std::optional<std::chrono::milliseconds> timeout = {}) const;
  /// Whether the operation ended, well or not. Never blocks.
  bool is_completed() const;
  /// Whether it ended without error.
  bool is_success() const;
  /// The stored error, or null.
  std::exception_ptr exception() const;
  /// The outputs, in the caller's own tensors; only meaningful once complete.
  std::vector<Tensor> result() const;
  /// Receives only, once complete: group rank of the sender. Else -1.
  int source_rank() const;
  /// Runs `callback` once the operation ends, at once if it has; on whichever thread completes it.
  /// It may start operations, in the same order on all ranks, but should not wait: other work of
  /// this process would wait with it. What it throws is logged and goes no further.
  /// InvalidArgument for an empty function.
  void then(std::function<void(const Work&)> callback) const;
  /// Number of the operation in its group; for point to point the number of messages before it.
  std::uint64_t sequence_number() const;
  const std::string& op_name() const;

 private:
  std::shared_ptr<WorkState> state_{};
};

/// Waits for all; the first error is rethrown after all have ended.
void wait_all(const std::vector<Work>& works);

}  // namespace tutti
#pragma GCC visibility pop
