// The process-wide default context: the one global of the project, because programs of this field
// expect to call operations without naming a group.
#include "group/context_state.hpp"
#include "group/group_state.hpp"

#include <tutti/error.hpp>
#include <tutti/group.hpp>

#include <memory>
#include <mutex>

namespace tutti {
namespace {

struct Default {
  std::mutex mutex;
  std::unique_ptr<Context> context;
  Group world;
};

Default& instance() {
  static Default value;  // destroyed at exit: flushes what was accepted
  return value;
}

}  // namespace

void init_process_group(const InitOptions& options) {
  Default& current = instance();
  const std::scoped_lock lock(current.mutex);
  if (current.context) {
    throw InvalidArgument("init_process_group was called before; call destroy_process_group first");
  }
  current.context = Context::create(options);
  current.world = current.context->world();
}

bool is_initialized() {
  Default& current = instance();
  const std::scoped_lock lock(current.mutex);
  return current.context != nullptr;
}

Context& default_context() {
  Context* context = instance().context.get();
  if (context == nullptr) {
    throw InvalidArgument("there is no default process group; call init_process_group first");
  }
  return *context;
}

Group& default_group() {
  default_context();
  return instance().world;
}

void destroy_process_group() {
  Default& current = instance();
  const std::scoped_lock lock(current.mutex);
  if (!current.context) {
    throw InvalidArgument("destroy_process_group: there is no default process group");
  }
  current.world = Group();
  current.context.reset();
}

void destroy_process_group(Group& group) {
  Context& context = default_context();
  if (&group.state() == &instance().world.state()) {
    destroy_process_group();
  } else {
    context.destroy_group(group);
  }
}

Group new_group(std::optional<std::vector<int>> ranks, const GroupOptions& options) {
  return default_context().new_group(std::move(ranks), options);
}

int get_rank() { return default_group().rank(); }
int get_world_size() { return default_group().size(); }

}  // namespace tutti
