// Group and Context: the handles, and the making of subgroups.
#include "group/context_state.hpp"
#include "group/group_state.hpp"
#include "plan/select.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/rendezvous.hpp"

#include <tutti/collectives.hpp>
#include <tutti/error.hpp>
#include <tutti/group.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tutti {
namespace {

void check_ranks(const std::vector<int>& ranks, int world_size) {
  if (ranks.empty()) {
    throw InvalidArgument("new_group: the list of ranks is empty; name at least one rank");
  }
  std::set<int> seen;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= world_size) {
      throw InvalidArgument(fmt::format(
          "new_group: rank {} in [{}] is not a rank of the world, which has ranks 0 to {}", rank,
          fmt::join(ranks, ", "), world_size - 1));
    }
    if (!seen.insert(rank).second) {
      throw InvalidArgument(
          fmt::format("new_group: rank {} appears twice in [{}]", rank, fmt::join(ranks, ", ")));
    }
  }
}

std::chrono::milliseconds checked_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) {
    throw InvalidArgument(fmt::format("timeout is {} ms; it must be positive", timeout.count()));
  }
  return timeout;
}

void check_algorithm(const std::string& name) {
  for (const Spec& row : kSpecs) {
    if (name.empty() || is_selectable(row.op, name)) {
      return;
    }
  }
  std::set<std::string> known;
  for (const Spec& row : kSpecs) {
    if (!row.point_to_point()) {
      known.insert(fmt::format("{}: {}", row.name, selectable_names(row.op)));
    }
  }
  throw InvalidArgument(fmt::format("algorithm '{}' is unknown; {}", name, fmt::join(known, "; ")));
}

}  // namespace

void Group::refuse_empty() {
  throw InvalidArgument("this Group is empty; use one from init_process_group, new_group or split");
}

bool Group::is_member() const { return state().is_member(); }
int Group::rank() const { return state().facts().rank; }
int Group::size() const { return is_member() ? state().seat().size : -1; }
const std::string& Group::name() const { return state().facts().name; }
const std::string& Group::description() const { return state().facts().description; }
const std::string& Group::backend() const { return state().backend_name(); }
const std::vector<int>& Group::ranks() const { return state().facts().ranks; }

int Group::global_rank(int rank) const {
  const std::vector<int>& ranks = state().facts().ranks;
  if (rank < 0 || rank >= static_cast<int>(ranks.size())) {
    throw InvalidArgument(fmt::format("group '{}' has no rank {}; it has ranks 0 to {}", name(),
                                      rank, ranks.size() - 1));
  }
  return ranks[static_cast<std::size_t>(rank)];
}

int Group::group_rank(int global_rank) const {
  const std::vector<int>& ranks = state().facts().ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), global_rank);
  if (found == ranks.end()) {
    throw InvalidArgument(fmt::format("global rank {} is not in group '{}' of ranks [{}]",
                                      global_rank, name(), fmt::join(ranks, ", ")));
  }
  return static_cast<int>(found - ranks.begin());
}

std::chrono::milliseconds Group::timeout() const { return state().lane().timeout(); }
void Group::set_timeout(std::chrono::milliseconds timeout) {
  state().lane().set_timeout(checked_timeout(timeout));
}
std::uint64_t Group::sequence_number() const { return state().lane().sequence(); }

void Group::abort(const std::string& reason) {
  state().lane().fail(
      {.kind = ErrorKind::aborted,
       .text = fmt::format("group '{}' was aborted by rank {}: {}", name(), rank(), reason)},
      Lane::Tell::others);
}

Group Group::split(int color, int key, const GroupOptions& options) const {
  GroupState& parent = state();
  parent.lane();
  Group self = *this;
  const Tensor mine = Tensor::of<std::int64_t>({color, key});
  const Tensor all = Tensor::empty({size(), 2}, DType::i64);
  all_gather_into_tensor(self, all, mine);
  struct Member {
    std::int64_t key;
    int rank;
  };
  std::vector<Member> members;
  for (int r = 0; r < size(); ++r) {
    if (all.at<std::int64_t>({r, 0}) == color) {
      members.push_back({all.at<std::int64_t>({r, 1}), r});
    }
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.key < b.key; });
  GroupPlan plan{.name = options.name, .options = options};
  plan.options.ordered = true;
  plan.timeout = checked_timeout(options.timeout.value_or(timeout()));
  const std::uint64_t number = parent.next_split();
  if (color < 0) {
    GroupState::Facts facts{.name = fmt::format("{}/split{}", name(), number), .options = options};
    return Group(std::make_shared<GroupState>(parent.context(), std::move(facts), nullptr));
  }
  for (const Member& member : members) {
    plan.ranks.push_back(global_rank(member.rank));
  }
  plan.callers = plan.ranks;
  if (plan.name.empty()) {
    plan.name = fmt::format("{}/split{}.{}", name(), number, color);
  }
  return parent.context().make_group(plan);
}

Context::Context(std::unique_ptr<ContextState> state) : state_(std::move(state)) {}

Context::~Context() {
  if (state_ && state_->abandoned()) {
    // A forked child: threads, locks and peers are the parent's. Whatever this process still needs
    // of them it does not have; the memory goes with the process.
    static_cast<void>(state_.release());
  }
}

std::unique_ptr<Context> Context::create(const InitOptions& options) {
  if (!options.backend.empty() && options.backend != "tutti") {
    throw InvalidArgument(
        fmt::format("backend '{}' is unknown; available: tutti", options.backend));
  }
  if (options.timeout) {
    checked_timeout(*options.timeout);
  }
  std::shared_ptr<Store> store = options.store;
  JobPlace place{.rank = options.rank, .world_size = options.world_size};
  if (store) {
    if (!options.init_method.empty()) {
      throw InvalidArgument("init: both store and init_method were given; give one of them");
    }
    if (place.rank < 0 || place.rank >= place.world_size) {
      throw InvalidArgument(
          fmt::format("init: with a store rank and world_size are needed, 0 <= rank < world_size; "
                      "given rank {}, world_size {}",
                      place.rank, place.world_size));
    }
  } else {
    const std::string url = options.init_method.empty() ? "env://" : options.init_method;
    const RendezvousResult joined =
        join_default({.url = url, .rank = place.rank, .world_size = place.world_size});
    store = joined.store;
    place = {.rank = joined.rank, .world_size = joined.world_size};
    // An explicit address may well join ranks of several launches.
    if (url.starts_with("env:")) {
      place.job_id = job_id_of(process_environment);
    }
  }
  return std::unique_ptr<Context>(
      new Context(std::make_unique<ContextState>(options, store, place)));
}

Group Context::world() const { return state_->world(); }
std::shared_ptr<Store> Context::store() const { return state_->store(); }

Group Context::new_group(std::optional<std::vector<int>> ranks, const GroupOptions& options) {
  GroupPlan plan{.name = options.name, .options = options};
  check_algorithm(options.algorithm);
  plan.timeout = checked_timeout(options.timeout.value_or(world().timeout()));
  if (ranks) {
    plan.ranks = *ranks;
  } else {
    plan.ranks = world().ranks();
  }
  check_ranks(plan.ranks, state_->world_size());
  if (!options.ordered) {
    std::sort(plan.ranks.begin(), plan.ranks.end());
  }
  plan.callers = options.use_local_synchronization ? plan.ranks : world().ranks();
  if (options.use_local_synchronization &&
      std::find(plan.ranks.begin(), plan.ranks.end(), state_->rank()) == plan.ranks.end()) {
    throw InvalidArgument(fmt::format(
        "new_group with local synchronization: rank {} is not one of [{}]; only members call "
        "it",
        state_->rank(), fmt::join(plan.ranks, ", ")));
  }
  if (plan.name.empty()) {
    plan.name = options.use_local_synchronization ? state_->next_local_name(plan.ranks)
                                                  : state_->next_name();
  }
  return state_->make_group(plan);
}

void Context::destroy_group(Group& group) {
  if (&group.state().context() != state_.get()) {
    throw InvalidArgument(fmt::format("group '{}' belongs to another context", group.name()));
  }
  if (&group.state() == &state_->world().state()) {
    throw InvalidArgument(fmt::format(
        "group '{}' is the world of its context and ends with it; destroy that", group.name()));
  }
  if (group.state().closed()) {
    throw InvalidArgument(fmt::format("group '{}' was destroyed before", group.name()));
  }
  state_->destroy_group(group.state());
}

MemoryUse Context::memory() const { return state_->fabric().memory(); }

std::vector<std::string> Context::describe_peers() const {
  std::vector<std::string> lines;
  for (int rank = 0; rank < state_->world_size(); ++rank) {
    lines.push_back(fmt::format("rank {}: {}", rank, state_->fabric().describe(rank)));
  }
  return lines;
}

}  // namespace tutti
