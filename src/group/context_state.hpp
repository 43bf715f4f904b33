// ContextState: everything a rank owns in a job, and how groups are made.
#pragma once

#include "engine/engine.hpp"
#include "group/group_state.hpp"
#include "rendezvous/claim.hpp"
#include "transport/fabric.hpp"

#include <tutti/group.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tutti {

/// A group to make: who is in it, and who takes part in making it.
struct GroupPlan {
  std::string name{};
  std::vector<int> ranks{};    ///< world ranks by group rank
  std::vector<int> callers{};  ///< world ranks that make it together
  GroupOptions options{};
  std::chrono::milliseconds timeout{};
};

/// This process's place in its job.
struct JobPlace {
  int rank = -1;
  int world_size = -1;
  /// What the launcher calls the job; empty where the ranks found each other without a launcher.
  std::string job_id{};
};

class ContextState {
 public:
  /// Joins the job: claims the rank, connects the fabric, makes the world group.
  ContextState(const InitOptions& options, std::shared_ptr<Store> store, const JobPlace& place);
  ~ContextState();
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const Group& world() const { return world_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  Fabric& fabric() { return *fabric_; }
  Engine& engine() { return *engine_; }

  Group make_group(const GroupPlan& plan);
  /// Name of the next group that all ranks of the world make together: "1", "2", ...
  std::string next_name() { return std::to_string(++groups_made_); }
  /// Name of the next group that just these ranks make together.
  std::string next_local_name(const std::vector<int>& ranks);
  void destroy_group(GroupState& group);

  /// After fork, in the child: no lock is taken, nothing is told to anybody.
  void abandon();
  bool abandoned() const { return abandoned_; }

 private:
  struct Retired {
    std::size_t offset;
    std::uint32_t others;  ///< how many have to have left before the memory is used again
  };

  bool all_there(const GroupPlan& plan, Store& store, const std::vector<std::string>& keys,
                 Duration limit);
  void refuse_if_gone(const GroupPlan& plan, Store& store);
  void refuse_late(const GroupPlan& plan, Store& store, std::chrono::milliseconds limit) const;
  void exchange_records(const GroupPlan& plan, Store& store, const std::string& record,
                        std::vector<std::string>& records);
  std::unique_ptr<Place> make_place(const GroupPlan& plan, std::uint64_t identity,
                                    const std::vector<std::size_t>& areas);
  std::size_t new_area();
  void reclaim();
  void retire_area(const Lane& lane);
  void leave_job();
  void await_leavers();
  [[noreturn]] void disagree(const GroupPlan& plan, int rank, const std::string& mine,
                             const std::string& theirs) const;

  int rank_;
  int world_size_;
  std::shared_ptr<Store> user_store_;  ///< as the caller or the rendezvous gave it
  RankClaim claim_{};
  std::shared_ptr<Store> store_{};  ///< keys of this incarnation
  std::unique_ptr<Fabric> fabric_{};
  std::unique_ptr<Engine> engine_{};
  std::mutex mutex_;
  std::map<std::string, int> name_uses_{};
  std::map<std::string, int> local_uses_{};
  std::map<const Lane*, std::size_t> areas_{};
  std::vector<std::weak_ptr<GroupState>> groups_{};
  std::vector<Retired> retired_{};
  int groups_made_ = 0;
  bool abandoned_ = false;
  Group world_{};
};

}  // namespace tutti
