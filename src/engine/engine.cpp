#include "engine/engine.hpp"

#include "base/limits.hpp"
#include "engine/lane.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kMaxEarlyFaults = 1024;

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
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Lane>> alive;
  for (const auto& [group, weak] : lanes_) {
    if (auto lane = weak.lock()) {
      alive.push_back(std::move(lane));
    }
  }
  return alive;
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
  ForeignLoad load;
  Backoff backoff(fabric_.wait_policy(), load);
  for (;;) {
    std::vector<std::shared_ptr<Lane>> busy = lanes();
    std::erase_if(busy, [](const auto& lane) { return !lane->has_work(); });
    {
      std::unique_lock lock(mutex_);
      if (busy.empty() && !kicked_ && !stopping_) {
        work_.wait(lock);
      }
      if (stopping_) {
        return;
      }
      kicked_ = false;
    }
    if (poll(busy)) {
      backoff.restart();
    } else if (!backoff.pause()) {
      sleep(busy);
    }
  }
}

bool Engine::poll(const std::vector<std::shared_ptr<Lane>>& busy) {
  bool moved = fabric_.transport().poll();
  for (const auto& lane : busy) {
    moved = lane->poll() || moved;
  }
  return moved;
}

void Engine::sleep(const std::vector<std::shared_ptr<Lane>>& busy) {
  if (busy.empty()) {
    return;
  }
  fabric_.look_at_peers();
  for (const auto& lane : busy) {
    lane->look_around();
    lane->register_bells();
  }
  auto sleeper = fabric_.lease_sleeper();
  // Armed and registered; what came in between is seen by this poll, what comes later rings.
  if (fabric_.transport().arm() && !poll(busy)) {
    sleeper->sleep(limits::kSleepSlice);
  }
  fabric_.return_sleeper(std::move(sleeper));
}

}  // namespace tutti
