// Engine: all lanes of a context, and the background thread that drives those nobody waits for. The
// thread starts with the first asynchronous operation.
#pragma once

#include "base/failure.hpp"
#include "transport/fabric.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

class Lane;

class Engine {
 public:
  explicit Engine(Fabric& fabric);
  ~Engine() { stop(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Fabric& fabric() { return fabric_; }
  void add(const std::shared_ptr<Lane>& lane);
  void remove(const Lane& lane);
  /// Something asynchronous is in flight: the background thread looks after it.
  void kick();
  /// A peer reported that a group failed; groups this rank has not made yet remember it.
  void on_fault(int world_rank, std::uint64_t group, const Failure& failure);
  /// A peer waits in a call of a group and asks this rank to compare.
  void on_probe(int world_rank, const Transport::Probe& probe);
  /// Ends the background thread; lanes stay.
  void stop();
  /// After fork, in the child: there is no thread to join.
  void abandon();
  std::vector<std::shared_ptr<Lane>> lanes();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  /// What the background thread does while it does not look at the lanes.
  enum class Rest : std::uint8_t {
    none,  // it does look, or will within a nap
    deep,  // waits for kicked_, or does not exist yet
    bell,  // sleeps until a peer, or this rank, rings its bell
  };

  void run();
  void await_kick();
  void attend();
  void nap();
  void collect(std::vector<std::shared_ptr<Lane>>& alive);
  bool find_busy();
  bool poll_busy();
  void sleep();

  Fabric& fabric_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::map<std::uint64_t, std::weak_ptr<Lane>> lanes_{};
  std::map<std::uint64_t, Failure> early_faults_{};  ///< bounded; see on_fault
  bool kicked_ = false;
  std::atomic<bool> stopping_{false};
  /// seq_cst throughout, as the lanes' counts of work: who adds work and then sees `none` has added
  /// it before the thread, which announces its rest first, looks for work once more.
  std::atomic<Rest> rest_{Rest::deep};
  std::atomic<bool> abandoned_{false};
  std::vector<std::shared_ptr<Lane>> busy_{};  ///< background thread only; never kept over a rest
  std::thread thread_{};
};

}  // namespace tutti
