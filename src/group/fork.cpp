#include "group/fork.hpp"

#include "group/context_state.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace tutti {
namespace {

// pthread_atfork has no way to pass a context: the list of live ones belongs to the process.
struct LiveContexts {
  std::mutex mutex;
  std::vector<ContextState*> contexts;
};

LiveContexts& live() {
  static auto* instance = new LiveContexts;  // never destroyed: forks may happen until the very end
  return *instance;
}

void before_fork() { live().mutex.lock(); }
void after_fork_in_parent() { live().mutex.unlock(); }
void after_fork_in_child() {
  for (ContextState* context : live().contexts) {
    context->abandon();
  }
  live().contexts.clear();
  live().mutex.unlock();
}

}  // namespace

void watch_forks(ContextState& context) {
  static const int registered =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(registered);
  const std::scoped_lock lock(live().mutex);
  live().contexts.push_back(&context);
}

void forget_forks(ContextState& context) {
  const std::scoped_lock lock(live().mutex);
  std::erase(live().contexts, &context);
}

}  // namespace tutti
