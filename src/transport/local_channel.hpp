// LocalChannel: messages of a rank to itself. They are copied from buffer to buffer once both sides
// are there; a small one that comes before its receive is copied aside so that its send is done.
// Bound: kEagerCreditBytes copied aside; beyond it, and for large ones, the send waits.
#pragma once

#include "transport/events.hpp"
#include "transport/match.hpp"
#include "transport/pool.hpp"

#include <cstdint>
#include <mutex>

namespace tutti {

class LocalChannel {
 public:
  LocalChannel(int rank, MatchTable& table) : rank_(rank), table_(table) {}

  /// Guards everything below.
  std::mutex& mutex() { return mutex_; }
  void send(SendOp& op, Events& events);
  void recv(RecvOp& op, Events& events);
  void deliver(Arrival& arrival, RecvOp& op, Events& events);
  bool cancel(SendOp& op);
  void forget(std::uint64_t group, Events& events);

 private:
  void release(Arrival& arrival);

  const int rank_;
  MatchTable& table_;
  std::mutex mutex_;
  Pool<Arrival> arrivals_;
  BufferPool buffers_;
  std::uint64_t held_ = 0;      // bytes and overhead copied aside
  Arrival* waiting_ = nullptr;  // sends that wait for their receive; by chain, newest first
};

}  // namespace tutti
