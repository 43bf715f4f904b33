// WorkPool: the states of a lane's asynchronous operations, used again instead of allocated. A
// state lies in one piece with the bookkeeping of the std::shared_ptr to it, so that handing one
// out allocates nothing. It comes back when the last handle is gone, whichever thread drops it.
//
// Lifetime: while states are out the pool holds its lane (their driver), which owns the pool; so a
// handle may well outlive the group. Bound: kKept states are kept, more are freed as they return.
#pragma once

#include "base/short_lock.hpp"
#include "engine/collective_item.hpp"
#include "engine/message_item.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>

namespace tutti {

/// W: MessageWork or CollectiveWork.
template <class W>
class WorkPool {
 public:
  static constexpr std::size_t kKept = std::is_same_v<W, MessageWork> ? 256 : 64;

  WorkPool() = default;
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;
  ~WorkPool();

  /// A state as new. `driver` owns this pool.
  std::shared_ptr<W> get(WorkDriver& driver, std::string_view op);
  /// States waiting to be used again; for tests.
  std::size_t kept() const;

 private:
  struct Node;
  struct LetGo;
  template <class T>
  struct InNode;

  Node* take(WorkDriver& driver);
  void put(Node& node);

  mutable ShortLock mutex_;
  Node* free_ = nullptr;
  std::size_t kept_ = 0;
  std::size_t out_ = 0;
  std::shared_ptr<WorkDriver> driver_{};  // while any is out
};

extern template class WorkPool<MessageWork>;
extern template class WorkPool<CollectiveWork>;

}  // namespace tutti
