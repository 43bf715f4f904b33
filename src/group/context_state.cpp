#include "group/context_state.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "engine/lane.hpp"
#include "group/fork.hpp"
#include "net/secret.hpp"
#include "rendezvous/rendezvous.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <numeric>

namespace tutti {
namespace {

constexpr std::chrono::seconds kLeaveLimit{5};  // how long the store's server waits for the others
constexpr std::chrono::milliseconds kLookInterval{200};  // while waiting in the store: who is gone?

std::string local_address_of(const std::shared_ptr<Store>& store) {
  const auto* tcp = dynamic_cast<const TCPStore*>(store.get());
  return tcp == nullptr ? "" : tcp->local_address();
}

std::string transport_choice(const InitOptions& options) {
  const char* from_environment = std::getenv("TUTTI_TRANSPORT");
  std::string choice = !options.transport.empty()    ? options.transport
                       : from_environment != nullptr ? from_environment
                                                     : "auto";
  if (choice != "auto" && choice != "shm" && choice != "tcp") {
    throw InvalidArgument(fmt::format("transport is '{}'; it must be auto, shm or tcp", choice));
  }
  return choice;
}

std::uint64_t identity_of(const std::string& name, int use) {
  std::uint64_t hash = 0xcbf29ce484222325U + static_cast<std::uint64_t>(use);
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

/// What all callers must agree on, readable because messages quote it.
std::string record_of(const GroupPlan& plan) {
  return fmt::format("ranks [{}]{}{}{}", fmt::join(plan.ranks, ", "),
                     plan.options.ordered ? " ordered" : "",
                     plan.options.deterministic ? " deterministic" : "",
                     plan.options.algorithm.empty() ? "" : " algorithm " + plan.options.algorithm);
}

/// Whether `rank` published its record; not if the store is gone.
bool has_record(Store& store, int rank) {
  const std::string key = std::to_string(rank);
  try {
    return store.check(std::span(&key, 1));
  } catch (const StoreError&) {
    return false;
  }
}

}  // namespace

ContextState::ContextState(const InitOptions& options, std::shared_ptr<Store> store,
                           const JobPlace& place)
    : rank_(place.rank), world_size_(place.world_size), user_store_(std::move(store)) {
  const std::string transport = transport_choice(options);
  const auto timeout = options.timeout.value_or(kDefaultTimeout);
  claim_ =
      claim_rank(user_store_, {.rank = rank_, .world_size = world_size_, .job_id = place.job_id});
  store_ = make_prefix_store(fmt::format("tutti/{}", claim_.incarnation()), user_store_);
  fabric_ = std::make_unique<Fabric>(
      FabricOptions{.store = make_prefix_store("start", store_),
                    .rank = rank_,
                    .world_size = world_size_,
                    .secret = job_secret(),
                    .transport = transport,
                    .local_address = local_address_of(user_store_),
                    .timeout = std::min<std::chrono::milliseconds>(timeout, user_store_->timeout()),
                    .on_fault = [this](int peer, std::uint64_t group, const Failure& failure) {
                      if (engine_) {
                        engine_->on_fault(peer, group, failure);
                      }
                    }});
  engine_ = std::make_unique<Engine>(*fabric_);
  const char* algorithm = std::getenv("TUTTI_ALGORITHM");
  GroupPlan plan{.name = options.group_name.empty() ? "world" : options.group_name,
                 .options = {.deterministic = options.deterministic,
                             .algorithm = algorithm == nullptr ? "" : algorithm},
                 .timeout = timeout};
  plan.ranks.resize(static_cast<std::size_t>(world_size_));
  std::iota(plan.ranks.begin(), plan.ranks.end(), 0);
  plan.callers = plan.ranks;
  world_ = make_group(plan);
  watch_forks(*this);
}

ContextState::~ContextState() {
  forget_forks(*this);
  for (const auto& weak : groups_) {
    if (const auto group = weak.lock(); group && group->is_member() && !group->closed()) {
      group->lane().drain(group->lane().timeout());
      group->close();
    }
  }
  const Deadline deadline = Deadline::after(kLeaveLimit);
  while (fabric_->transport().pending_sends() != 0 &&
         !deadline.passed(std::chrono::steady_clock::now())) {
    if (!fabric_->transport().poll()) {
      auto sleeper = fabric_->lease_sleeper();
      if (fabric_->transport().arm()) {
        sleeper->sleep(std::chrono::milliseconds(1));
      }
      fabric_->return_sleeper(std::move(sleeper));
    }
  }
  engine_->stop();
  leave_job();
}

/// The others may still be starting: whoever serves the store leaves last, within reason.
void ContextState::leave_job() {
  try {
    store_->set(fmt::format("left/{}", rank_), "1");
    const auto* tcp = dynamic_cast<const TCPStore*>(user_store_.get());
    if (tcp != nullptr && tcp->is_server()) {
      await_leavers();
    }
  } catch (const Error&) {
    // Somebody stays longer, or the store has gone already: leaving is never an error.
  }
}

/// The dead leave nothing behind, and are not waited for.
void ContextState::await_leavers() {
  const Deadline deadline = Deadline::after(kLeaveLimit);
  for (;;) {
    fabric_->look_at_peers();
    std::vector<std::string> keys;
    for (int rank = 0; rank < world_size_; ++rank) {
      if (!fabric_->failure(rank)) {
        keys.push_back(fmt::format("left/{}", rank));
      }
    }
    if (keys.empty() || deadline.passed(std::chrono::steady_clock::now())) {
      return;
    }
    try {
      store_->wait(keys, kLookInterval);
      return;
    } catch (const Timeout&) {
    }
  }
}

std::string ContextState::next_local_name(const std::vector<int>& ranks) {
  const std::string members = fmt::format("{}", fmt::join(ranks, ","));
  const std::scoped_lock lock(mutex_);
  return fmt::format("{}:{}", members, ++local_uses_[members]);
}

std::size_t ContextState::new_area() {
  reclaim();
  const std::size_t offset = fabric_->segment().allocate(sizeof(TeamArea));
  ::new (fabric_->segment().base() + offset) TeamArea;
  return offset;
}

/// Whether all `keys` come within `limit`.
bool ContextState::all_there(const GroupPlan& plan, Store& store,
                             const std::vector<std::string>& keys, Duration limit) {
  constexpr std::chrono::milliseconds kLeast{1};
  try {
    store.wait(keys, std::max(kLeast, std::chrono::ceil<std::chrono::milliseconds>(limit)));
    return true;
  } catch (const Timeout&) {
    return false;
  } catch (const StoreError&) {
    refuse_if_gone(plan, store);  // a dead rank that served the store is the cause
    throw;
  }
}

/// Throws if a caller is gone and left no record behind.
void ContextState::refuse_if_gone(const GroupPlan& plan, Store& store) {
  fabric_->look_at_peers();
  fabric_->transport().poll();
  for (const int rank : plan.callers) {
    const auto cause = fabric_->failure(rank);
    if (cause && !has_record(store, rank)) {
      throw PeerLost(fmt::format("new_group '{}' (rank {}): rank {} is gone ({})", plan.name, rank_,
                                 rank, cause->text),
                     rank);
    }
  }
}

void ContextState::refuse_late(const GroupPlan& plan, Store& store,
                               std::chrono::milliseconds limit) const {
  std::vector<int> missing;
  std::ranges::copy_if(plan.callers, std::back_inserter(missing),
                       [&](int rank) { return !has_record(store, rank); });
  if (!missing.empty()) {
    throw Timeout(fmt::format(
        "new_group '{}' (rank {}): rank {} did not call it within {} ms; every rank of "
        "[{}] must make the group, in the same order as its other groups",
        plan.name, rank_, fmt::join(missing, ", "), limit.count(), fmt::join(plan.callers, ", ")));
  }
}

/// Publishes this rank's record and waits for those of all callers.
void ContextState::exchange_records(const GroupPlan& plan, Store& store, const std::string& record,
                                    std::vector<std::string>& records) {
  std::vector<std::string> keys;
  for (const int caller : plan.callers) {
    keys.push_back(std::to_string(caller));
  }
  store.set(std::to_string(rank_), record);
  const auto limit = std::min<std::chrono::milliseconds>(plan.timeout, store.timeout());
  const Deadline deadline = Deadline::after(limit);
  for (;;) {
    const Duration left = deadline.left(std::chrono::steady_clock::now());
    if (all_there(plan, store, keys, std::min<Duration>(kLookInterval, left))) {
      break;
    }
    refuse_if_gone(plan, store);
    if (left == Duration::zero()) {
      refuse_late(plan, store, limit);
    }
  }
  records = store.multi_get(keys);
}

void ContextState::disagree(const GroupPlan& plan, int rank, const std::string& mine,
                            const std::string& theirs) const {
  throw Mismatch(
      fmt::format(
          "new_group '{}' (rank {}): rank {} makes a group of {}, this rank of {}; all ranks "
          "must make the same groups in the same order",
          plan.name, rank_, rank, theirs, mine),
      rank);
}

Group ContextState::make_group(const GroupPlan& plan) {
  int use = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& weak : groups_) {
      const auto other = weak.lock();
      if (other && !other->closed() && other->facts().name == plan.name) {
        throw InvalidArgument(
            fmt::format("new_group (rank {}): the name '{}' is taken by a group of ranks [{}]",
                        rank_, plan.name, fmt::join(other->facts().ranks, ", ")));
      }
    }
    use = ++name_uses_[plan.name];
  }
  const auto me = std::find(plan.ranks.begin(), plan.ranks.end(), rank_);
  const bool member = me != plan.ranks.end();
  const std::size_t area = member ? new_area() : 0;
  const std::string record = record_of(plan);
  const auto scope = make_prefix_store(fmt::format("group/{}#{}", plan.name, use), store_);
  std::vector<std::string> records;
  exchange_records(plan, *scope, fmt::format("{}\n{}", record, area), records);
  std::vector<std::size_t> areas(static_cast<std::size_t>(world_size_), 0);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::size_t line = records[i].rfind('\n');
    const std::string theirs = records[i].substr(0, line);
    if (theirs != record) {
      disagree(plan, plan.callers[i], record, theirs);
    }
    areas[static_cast<std::size_t>(plan.callers[i])] = std::stoull(records[i].substr(line + 1));
  }
  GroupState::Facts facts{.name = plan.name,
                          .description = plan.options.description,
                          .ranks = plan.ranks,
                          .rank = member ? static_cast<int>(me - plan.ranks.begin()) : -1,
                          .rules = {.complex_product = plan.options.complex_product},
                          .options = plan.options};
  std::shared_ptr<Lane> lane;
  if (member) {
    lane = std::make_shared<Lane>(
        *engine_,
        make_place(plan, identity_of(plan.name, use + claim_.incarnation() * 65536), areas),
        LaneOptions{.name = plan.name,
                    .timeout = plan.timeout,
                    .deterministic = plan.options.deterministic,
                    .algorithm = plan.options.algorithm});
    engine_->add(lane);
  }
  auto group = std::make_shared<GroupState>(*this, std::move(facts), lane);
  const std::scoped_lock lock(mutex_);
  std::erase_if(groups_, [](const auto& weak) { return weak.expired(); });
  groups_.push_back(group);
  if (member) {
    areas_[lane.get()] = area;
  }
  return Group(std::move(group));
}

std::unique_ptr<Place> ContextState::make_place(const GroupPlan& plan, std::uint64_t identity,
                                                const std::vector<std::size_t>& areas) {
  auto place = std::make_unique<Place>();
  place->fabric = fabric_.get();
  place->group = identity;
  place->members = plan.ranks;
  std::vector<Team::Member> team;
  Seat team_seat{.rank = 0, .size = 0};
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const int world = plan.ranks[r];
    if (world == rank_) {
      place->seat = {.rank = static_cast<int>(r), .size = static_cast<int>(plan.ranks.size())};
      team_seat.rank = team_seat.size;
    }
    const int host = fabric_->host_of()[static_cast<std::size_t>(world)];
    place->topology.host_of_rank.push_back(host);
    if (host != fabric_->host_of()[static_cast<std::size_t>(rank_)]) {
      continue;
    }
    ++team_seat.size;
    place->team_ranks.push_back(static_cast<int>(r));
    std::byte* area = fabric_->base_of(world) + areas[static_cast<std::size_t>(world)];
    team.push_back({.world_rank = world, .area = std::launder(reinterpret_cast<TeamArea*>(area))});
  }
  place->one_host = team_seat.size == place->seat.size;
  place->two_level = suits_two_level(place->topology);
  const auto ring_bell = [](void* fabric, int rank) {
    static_cast<Fabric*>(fabric)->ring_bell(rank);
  };
  place->team = std::make_unique<Team>(team_seat, std::move(team), fabric_->publish_mode(),
                                       ring_bell, fabric_.get());
  place->team_state = std::make_unique<TeamState>(team_seat.size);
  return place;
}

void ContextState::destroy_group(GroupState& group) {
  if (group.is_member() && !group.closed()) {
    Lane& lane = group.lane();
    lane.drain(lane.timeout());
    group.close();
    engine_->remove(lane);
    fabric_->transport().forget_group(lane.place().group);
    retire_area(lane);
  }
  group.close();
}

/// From here on this rank touches no member's area any more; its own is free when all have left.
void ContextState::retire_area(const Lane& lane) {
  const Team& team = *lane.place().team;
  for (int seat = 0; seat < team.seat().size; ++seat) {
    if (seat != team.seat().rank) {
      // release: our last reads of that area come before its owner's reuse (acquire in reclaim).
      team.area(seat).departed.fetch_add(1, std::memory_order_release);
    }
  }
  const std::scoped_lock lock(mutex_);
  const auto found = areas_.find(&lane);
  retired_.push_back({found->second, static_cast<std::uint32_t>(team.seat().size - 1)});
  areas_.erase(found);
}

void ContextState::reclaim() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(retired_, [this](const Retired& area) {
    auto* memory =
        std::launder(reinterpret_cast<TeamArea*>(fabric_->segment().base() + area.offset));
    if (memory->departed.load(std::memory_order_acquire) != area.others) {
      return false;
    }
    fabric_->segment().release(area.offset, sizeof(TeamArea));
    return true;
  });
}

void ContextState::abandon() {
  abandoned_ = true;
  engine_->abandon();
  fabric_->abandon();
}

}  // namespace tutti
