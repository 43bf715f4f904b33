#include "group/group_state.hpp"

#include "backend/native.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tutti {

GroupState::GroupState(ContextState& context, Facts facts, std::shared_ptr<Lane> lane)
    : context_(context), facts_(std::move(facts)), lane_(std::move(lane)) {
  if (lane_) {
    backend_ = std::make_unique<NativeBackend>(lane_);
  }
}

Lane& GroupState::lane() const {
  if (!is_member()) {
    const std::string members =
        facts_.ranks.empty()
            ? "it asked for no group when it split"
            : fmt::format("only ranks [{}] may communicate on it", fmt::join(facts_.ranks, ", "));
    throw InvalidArgument(
        fmt::format("group '{}': this rank is not a member; {}", facts_.name, members));
  }
  if (closed_) {
    throw InvalidArgument(fmt::format("group '{}' was destroyed; make a new one", facts_.name));
  }
  return *lane_;
}

const std::string& GroupState::backend_name() const {
  lane();
  return backend_->name();
}

void GroupState::validate_into(const Request& request, Call& call) const {
  const std::uint64_t next = lane().sequence() + 1;
  const OpContext context{
      .group = facts_.name, .seat = seat(), .op = spec(request.op).name, .sequence = next};
  validate(request, context, facts_.rules, call);
}

void GroupState::submit(const Request& request) {
  lane();  // refuses non-members and destroyed groups
  if (backend_->repeat(request)) {
    return;
  }
  Call call;
  validate_into(request, call);
  backend_->run(request, call);
}

std::shared_ptr<WorkState> GroupState::submit_async(const Request& request) {
  Call call;
  validate_into(request, call);
  return backend_->start(request, call);
}

int GroupState::transfer(const Request& request) {
  Call call;
  validate_into(request, call);
  return backend_->transfer(request, call);
}

std::shared_ptr<WorkState> GroupState::transfer_async(const Request& request) {
  const Message message = validated(request);
  std::shared_ptr<WorkState> work;
  start_transfers({&message, 1}, {&work, 1});
  return work;
}

Message GroupState::validated(const Request& request) const {
  Call call;
  validate_into(request, call);
  return {.request = request, .fingerprint = call.fingerprint};
}

void GroupState::start_transfers(std::span<const Message> messages,
                                 std::span<std::shared_ptr<WorkState>> works) {
  backend_->start_transfers(messages, works);
}

}  // namespace tutti
