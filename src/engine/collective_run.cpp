#include "engine/collective_run.hpp"

#include "base/ensure.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

/// From this size on outputs bypass the caches: a quarter of a usual last-level cache share.
constexpr std::size_t kStreamingBytes = std::size_t{2} << 20;
constexpr std::uint64_t kCollectiveTag = std::uint64_t{1} << 63;

}  // namespace

void CollectiveRun::start(Place& place, const Selection& selection, const Call& call,
                          std::uint64_t sequence) {
  place_ = &place;
  call_ = &call;
  is_direct_ = selection.kind == Selection::Kind::direct;
  const int root = std::max(call.root, 0);
  if (is_direct_) {
    const DirectPlan& plan = place.plans.direct(call.op, selection.protocol, place.team->seat(),
                                                root, selection.lookahead);
    direct_.start(
        *place.team, *place.team_state, plan, call,
        {.segment = selection.segment_bytes, .ring = kRingBytes, .streaming = kStreamingBytes});
    return;
  }
  const Plan& plan =
      selection.kind == Selection::Kind::two_level
          ? place.plans.two_level(call.op, place.seat, root, place.topology, selection.large)
          : place.plans.message(*selection.algorithm, place.seat, root);
  message_.start(place.fabric->transport(), plan, call, place.seat, place.members,
                 {place.group, kCollectiveTag | sequence});
}

bool CollectiveRun::advance() {
  if (!is_direct_) {
    obstacle_ = {};
    return message_.advance();
  }
  if (direct_.advance()) {
    return true;
  }
  obstacle_ = {.line = true, .blocked = direct_.blocked()};
  return direct_.mismatched();
}

int CollectiveRun::group_rank(int seat) const {
  return is_direct_ ? place_->team_ranks[static_cast<std::size_t>(seat)] : seat;
}

Failure CollectiveRun::lost(const OpContext& context, int rank) const {
  const int world_rank = place_->members[static_cast<std::size_t>(rank)];
  const auto cause = place_->fabric->failure(world_rank);
  return {.kind = ErrorKind::peer_lost,
          .text = fmt::format("{}: rank {} is gone ({}: {}), {}; last completed here: #{}",
                              describe(context), rank, place_->fabric->describe(world_rank),
                              cause ? cause->text : "no longer reachable", progress(),
                              context.sequence == 0 ? 0 : context.sequence - 1),
          .peer = rank};
}

std::optional<Failure> CollectiveRun::failure(const OpContext& context) const {
  if (is_direct_) {
    if (!direct_.mismatched()) {
      return std::nullopt;
    }
    const int rank = group_rank(direct_.mismatch_seat());
    return Failure{.kind = ErrorKind::mismatch,
                   .text = describe_difference(context, call_->fingerprint,
                                               direct_.mismatch_fingerprint(), rank),
                   .peer = rank};
  }
  const RunFailure& failure = message_.failure();
  switch (failure.kind) {
    case RunFailure::Kind::none:
      return std::nullopt;
    case RunFailure::Kind::lost:
      return lost(context, failure.peer);
    case RunFailure::Kind::mismatch:
      return Failure{
          .kind = ErrorKind::mismatch,
          .text = describe_difference(context, call_->fingerprint, failure.theirs, failure.peer),
          .peer = failure.peer};
    case RunFailure::Kind::bytes:
      break;
  }
  return Failure{.kind = ErrorKind::mismatch,
                 .text = fmt::format(
                     "{}: rank {} sent {} bytes for this rank, which expects {}; both ends "
                     "of each pair must agree on the count",
                     describe(context), failure.peer, failure.actual_bytes, failure.expected_bytes),
                 .peer = failure.peer};
}

std::optional<Failure> CollectiveRun::inspect(const OpContext& context) const {
  if (!is_direct_) {
    return std::nullopt;  // the transport reports lost peers and the stamps disagreement
  }
  std::uint64_t theirs = 0;
  if (const int seat = direct_.disagreeing_seat(theirs); seat >= 0) {
    const int rank = group_rank(seat);
    return Failure{.kind = ErrorKind::mismatch,
                   .text = describe_difference(context, call_->fingerprint, theirs, rank),
                   .peer = rank};
  }
  std::vector<int> suspects = direct_.missing_seats();
  if (obstacle_.line && obstacle_.blocked.seat >= 0) {
    suspects.push_back(obstacle_.blocked.seat);
  }
  for (const int seat : suspects) {
    const int rank = group_rank(seat);
    // Looked at again after the death was noticed: it may have posted as its last act.
    if (place_->fabric->failure(place_->members[static_cast<std::size_t>(rank)]) &&
        obstacle_.line && !reached(*obstacle_.blocked.epoch, obstacle_.blocked.target)) {
      return lost(context, rank);
    }
  }
  return std::nullopt;
}

std::vector<int> CollectiveRun::missing() const {
  std::vector<int> ranks;
  for (const int seat : is_direct_ ? direct_.missing_seats() : message_.waiting_for()) {
    ranks.push_back(group_rank(seat));
  }
  if (ranks.empty() && is_direct_ && obstacle_.line && obstacle_.blocked.seat >= 0) {
    ranks.push_back(group_rank(obstacle_.blocked.seat));
  }
  return ranks;
}

void CollectiveRun::cancel() {
  if (!is_direct_) {
    message_.cancel();
  }
}

std::string CollectiveRun::progress() const {
  return fmt::format("{} of {} bytes done",
                     is_direct_ ? direct_.bytes_done() : message_.bytes_done(),
                     is_direct_ ? direct_.bytes_total() : message_.bytes_total());
}

}  // namespace tutti
