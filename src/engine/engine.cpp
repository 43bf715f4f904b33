#include "engine/engine.hpp"

#include "base/limits.hpp"
#include "engine/lane.hpp"

#include <algorithm>
#include <iterator>

namespace tutti {
namespace {

constexpr std::size_t kMaxEarlyFaults = 1024;
// Most asynchronous work is waited for soon after it was started; then the waiting thread moves it
// on, and a background thread at the same work would only be in its way. So that one comes later.
constexpr std::chrono::microseconds kNap{100};
constexpr int kIdleNaps = 50;  // without work; then it sleeps until it is kicked

}  // namespace

Engine::Engine(Fabric& fabric) : fabric_(fabric) {
  fabric_.transport().set_probe_handler(
      [this](int peer, const Transport::Probe& probe) { on_probe(peer, probe); });
}

void Engine::on_probe(int world_rank, const Transport::Probe& probe) {
  std::shared_ptr<Lane> lane;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = lanes_.find(probe.call.group); found != lanes_.end()) {
      lane = found->second.lock();
    }
  }
  if (lane) {
    lane->compare(world_rank, probe);
  }
}

void Engine::add(const std::shared_ptr<Lane>& lane) {
  std::optional<Failure> early;
  {
    const std::scoped_lock lock(mutex_);
    lanes_[lane->place().group] = lane;
    if (const auto found = early_faults_.find(lane->place().group); found != early_faults_.end()) {
      early = found->second;
      early_faults_.erase(found);
    }
  }
  if (early) {
    lane->fail(*early, Lane::Tell::nobody);
  }
}

void Engine::remove(const Lane& lane) {
  const std::scoped_lock lock(mutex_);
  lanes_.erase(lane.place().group);
}

std::vector<std::shared_ptr<Lane>> Engine::lanes() {
  std::vector<std::shared_ptr<Lane>> alive;
  collect(alive);
  return alive;
}

void Engine::collect(std::vector<std::shared_ptr<Lane>>& alive) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [group, weak] : lanes_) {
    if (auto lane = weak.lock()) {
      alive.push_back(std::move(lane));
    }
  }
}

void Engine::on_fault(int, std::uint64_t group, const Failure& failure) {
  std::shared_ptr<Lane> lane;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = lanes_.find(group); found != lanes_.end()) {
      lane = found->second.lock();
    } else if (early_faults_.size() < kMaxEarlyFaults) {
      early_faults_.emplace(group, failure);
    }
  }
  if (lane) {
    lane->fail(failure, Lane::Tell::nobody);
  }
}

void Engine::kick() {
  switch (rest_.load(std::memory_order_seq_cst)) {
    case Rest::none:
      return;
    case Rest::bell:
      fabric_.ring_own_bell();
      return;
    case Rest::deep:
      break;
  }
  const std::scoped_lock lock(mutex_);
  if (stopping_) {
    return;
  }
  kicked_ = true;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
  }
  work_.notify_one();
}

void Engine::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) {
    fabric_.ring_own_bell();
    thread_.join();
  }
}

void Engine::abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) {
    thread_.detach();  // the thread exists in the parent only
  }
}

void Engine::run() {
  while (!stopping_) {
    await_kick();
    attend();
  }
}

void Engine::await_kick() {
  rest_.store(Rest::deep, std::memory_order_seq_cst);
  if (!find_busy()) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [this] { return kicked_ || stopping_; });
    kicked_ = false;
  }
  rest_.store(Rest::none, std::memory_order_seq_cst);
}

/// Moves on what nobody waits for, until there has been nothing to do for a while.
void Engine::attend() {
  ForeignLoad load;
  Backoff backoff(fabric_.wait_policy(), load);
  for (int idle = 0; idle < kIdleNaps && !stopping_;) {
    idle = find_busy() ? 0 : idle + 1;
    // Every lane is asked: the answer is about the time since the last question.
    const auto attended =
        std::ranges::count_if(busy_, [](const auto& lane) { return lane->attended(); });
    if (attended == std::ssize(busy_)) {
      backoff.restart();
      nap();
    } else if (poll_busy()) {
      backoff.restart();
    } else if (!backoff.pause()) {
      sleep();
    }
  }
  busy_.clear();
}

void Engine::nap() {
  std::unique_lock lock(mutex_);
  work_.wait_for(lock, kNap, [this] { return stopping_.load(); });
}

/// Collects the lanes with work in busy_, whose memory stays: the thread looks often.
bool Engine::find_busy() {
  busy_.clear();
  collect(busy_);
  std::erase_if(busy_, [](const auto& lane) { return !lane->has_work(); });
  return !busy_.empty();
}

bool Engine::poll_busy() {
  bool moved = fabric_.transport().poll();
  for (const auto& lane : busy_) {
    moved = lane->poll() || moved;
  }
  return moved;
}

void Engine::sleep() {
  rest_.store(Rest::bell, std::memory_order_seq_cst);
  fabric_.look_at_peers();
  for (const auto& lane : busy_) {
    lane->look_around();
    lane->register_bells();
  }
  auto sleeper = fabric_.lease_sleeper();
  // Armed and registered; what came in between is seen by this poll, what comes later rings.
  if (fabric_.transport().arm() && !poll_busy()) {
    sleeper->sleep(limits::kSleepSlice);
  }
  fabric_.return_sleeper(std::move(sleeper));
  rest_.store(Rest::none, std::memory_order_seq_cst);
}

}  // namespace tutti
