#include "engine/work.hpp"

#include "base/ensure.hpp"
#include "base/log.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace tutti {
namespace {

/// In place of tensors that are let go of: copied, not moved, so that the shapes keep their memory.
void empty(std::vector<Tensor>& tensors) {
  static const Tensor kNone;
  std::ranges::fill(tensors, kNone);
}

}  // namespace

void WorkState::end(std::optional<Failure> failure) {
  std::vector<std::function<void()>> callbacks;
  {
    const std::scoped_lock lock(mutex_);
    ensure(!ended(), "an operation ends once");
    failure_ = std::move(failure);
    empty(inputs_);
    status_.store(failure_ ? Status::failed : Status::succeeded, std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) {
    call_back(callback);
  }
}

void WorkState::renew(WorkDriver& driver, std::string_view op) {
  driver_ = &driver;
  op_ = op;
  sequence_ = 0;
  status_.store(Status::pending, std::memory_order_relaxed);
  source_ = -1;
}

void WorkState::let_go() {
  failure_.reset();
  empty(inputs_);
  empty(outputs_);
  callbacks_.clear();
}

void WorkState::then(std::function<void()> callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (!ended()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  call_back(callback);
}

/// A callback may run in any thread that moves operations on, none of which could deal with what it
/// throws.
void WorkState::call_back(const std::function<void()>& callback) const {
  try {
    callback();
  } catch (const std::exception& error) {
    log_line(fmt::format("{} #{}: a callback threw: {}", op_, sequence_, error.what()));
  } catch (...) {
    log_line(fmt::format("{} #{}: a callback threw something unknown", op_, sequence_));
  }
}

namespace {

WorkState& checked(const std::shared_ptr<WorkState>& state) {
  if (state == nullptr) {
    throw InvalidArgument("this Work is empty; only a Work returned by an operation can be used");
  }
  return *state;
}

}  // namespace

void Work::wait(std::optional<std::chrono::milliseconds> timeout) const {
  WorkState& state = checked(state_);
  if (!state.ended() && !state.driver().drive(state, timeout)) {
    throw Timeout(fmt::format("{} #{}: not complete after {} ms of waiting; the operation goes on",
                              state.op(), state.sequence(), timeout->count()));
  }
  if (state.failure()) {
    raise(*state.failure());
  }
}

bool Work::is_completed() const { return checked(state_).ended(); }
bool Work::is_success() const { return checked(state_).succeeded(); }

std::exception_ptr Work::exception() const {
  WorkState& state = checked(state_);
  if (!state.ended() || !state.failure()) {
    return nullptr;
  }
  try {
    raise(*state.failure());
  } catch (...) {
    return std::current_exception();
  }
}

std::vector<Tensor> Work::result() const { return checked(state_).outputs(); }

int Work::source_rank() const {
  WorkState& state = checked(state_);
  return state.ended() ? state.source() : -1;
}

void Work::then(std::function<void(const Work&)> callback) const {
  if (!callback) {
    throw InvalidArgument("Work::then was given an empty function; pass one that can be called");
  }
  checked(state_).then([work = *this, call = std::move(callback)] { call(work); });
}

std::uint64_t Work::sequence_number() const { return checked(state_).sequence(); }
const std::string& Work::op_name() const { return checked(state_).op(); }

void wait_all(const std::vector<Work>& works) {
  std::exception_ptr first;
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) {
        first = std::current_exception();
      }
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace tutti
