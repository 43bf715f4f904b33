// GroupState: a group as its handles share it, and the one door through which every operation goes.
#pragma once

#include "backend/backend.hpp"
#include "engine/lane.hpp"
#include "plan/request.hpp"

#include <tutti/group.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class ContextState;

class GroupState {
 public:
  struct Facts {
    std::string name{};
    std::string description{};
    std::vector<int> ranks{};  ///< group rank -> world rank
    int rank = -1;             ///< -1: not a member
    GroupRules rules{};
    GroupOptions options{};
  };
  GroupState(ContextState& context, Facts facts, std::shared_ptr<Lane> lane);

  /// Validates, then runs the operation to its end.
  void submit(const Request& request);
  /// Validates, then starts the operation.
  std::shared_ptr<WorkState> submit_async(const Request& request);
  /// Point to point; returns the sender's group rank for a receive.
  int transfer(const Request& request);
  std::shared_ptr<WorkState> transfer_async(const Request& request);
  /// The two halves of it, for a batch: nothing is started unless all are valid.
  Message validated(const Request& request) const;
  void start_transfers(std::span<const Message> messages,
                       std::span<std::shared_ptr<WorkState>> works);

  const Facts& facts() const { return facts_; }
  bool is_member() const { return facts_.rank >= 0; }
  Seat seat() const { return {.rank = facts_.rank, .size = static_cast<int>(facts_.ranks.size())}; }
  /// The native lane. InvalidArgument for a non-member or a destroyed group.
  Lane& lane() const;
  const std::shared_ptr<Lane>& lane_pointer() const { return lane_; }
  const std::string& backend_name() const;
  ContextState& context() const { return context_; }
  std::uint64_t next_split() { return ++splits_; }
  std::uint64_t next_monitored_barrier() { return ++monitored_barriers_; }
  bool closed() const { return closed_; }
  void close() { closed_ = true; }

 private:
  void validate_into(const Request& request, Call& call) const;

  ContextState& context_;
  Facts facts_;
  std::shared_ptr<Lane> lane_;
  std::unique_ptr<Backend> backend_;
  std::uint64_t splits_ = 0;
  std::uint64_t monitored_barriers_ = 0;
  bool closed_ = false;
};

}  // namespace tutti
