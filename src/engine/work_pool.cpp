#include "engine/work_pool.hpp"

#include <mutex>
#include <utility>

namespace tutti {

template <class W>
struct WorkPool<W>::Node {
  static constexpr std::size_t kControlBytes = 64;
  W work{};
  WorkPool* pool = nullptr;
  Node* next = nullptr;
  alignas(std::max_align_t) std::byte control[kControlBytes];  // of the std::shared_ptr
};

/// The last handle is gone: what belongs to the caller is released at once.
template <class W>
struct WorkPool<W>::LetGo {
  void operator()(W* work) const {
    work->item.let_go();
    work->let_go();
  }
};

/// Places the bookkeeping in the node. Giving that memory back is the very last use of a state, and
/// so the moment to put it into the pool.
template <class W>
template <class T>
struct WorkPool<W>::InNode {
  using value_type = T;
  explicit InNode(Node& owner) : node(&owner) {}
  template <class U>
  InNode(const InNode<U>& other) : node(other.node) {}
  T* allocate(std::size_t) {
    static_assert(sizeof(T) <= Node::kControlBytes && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(node->control);
  }
  void deallocate(T*, std::size_t) { node->pool->put(*node); }
  template <class U>
  bool operator==(const InNode<U>& other) const {
    return node == other.node;
  }
  Node* node;
};

template <class W>
WorkPool<W>::~WorkPool() {
  while (Node* node = free_) {
    free_ = node->next;
    delete node;
  }
}

template <class W>
typename WorkPool<W>::Node* WorkPool<W>::take(WorkDriver& driver) {
  const std::scoped_lock lock(mutex_);
  if (out_++ == 0) {
    driver_ = driver.self();
  }
  Node* node = free_;
  if (node != nullptr) {
    free_ = node->next;
    --kept_;
  }
  return node;
}

template <class W>
void WorkPool<W>::put(Node& node) {
  std::unique_ptr<Node> surplus;
  std::shared_ptr<WorkDriver> last;  // the pool may go with it: destroyed after the lock
  const std::scoped_lock lock(mutex_);
  if (--out_ == 0) {
    last = std::move(driver_);
  }
  if (kept_ < kKept) {
    node.next = free_;
    free_ = &node;
    ++kept_;
  } else {
    surplus.reset(&node);
  }
}

template <class W>
std::shared_ptr<W> WorkPool<W>::get(WorkDriver& driver, std::string_view op) {
  Node* node = take(driver);
  if (node == nullptr) {
    node = new Node;
    node->pool = this;
  } else {
    node->work.item.reset();
  }
  node->work.renew(driver, op);
  return {&node->work, LetGo{}, InNode<W>(*node)};
}

template <class W>
std::size_t WorkPool<W>::kept() const {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

template class WorkPool<MessageWork>;
template class WorkPool<CollectiveWork>;

}  // namespace tutti
