#include "engine/collective_run.hpp"

#include "base/ensure.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

/// From this size on outputs bypass the caches: a quarter of a usual last-level cache share.
constexpr std::size_t kStreamingBytes = std::size_t{2} << 20;
static_assert(kMostRingBytes == kRingBytes, "a tuning table may ask for the whole ring");
/// Collectives match only among ranks that agree on everything before: the tag holds 30 bits of the
/// history beside the sequence number, apart from the tags of users and of the library itself.
constexpr std::uint64_t collective_tag(std::uint64_t history, std::uint64_t sequence) {
  constexpr std::uint64_t kCollective = std::uint64_t{1} << 63;
  return kCollective | (history & 0x3fffffff) << 32 | (sequence & 0xffffffff);
}

}  // namespace

void CollectiveRun::start(Place& place, const Selection& selection, const Call& call,
                          std::uint64_t sequence) {
  place_ = &place;
  call_ = &call;
  is_direct_ = selection.kind == Selection::Kind::direct;
  const int root = std::max(call.root, 0);
  generation_ = place.plans.generation();
  if (is_direct_) {
    const DirectPlan& plan = place.plans.direct(call.op, selection.protocol, place.team->seat(),
                                                root, selection.lookahead);
    direct_.start(*place.team, *place.team_state, plan, call,
                  {.segment = selection.segment_bytes,
                   .ring = selection.ring_bytes,
                   .streaming = kStreamingBytes});
    return;
  }
  const Plan& plan =
      selection.kind == Selection::Kind::two_level
          ? place.plans.two_level(call.op, place.seat, root, place.topology, selection.large)
          : place.plans.message(*selection.algorithm, place.seat, root);
  message_.start(place.fabric->transport(), plan, call, place.seat, place.members,
                 {place.group, collective_tag(call.history, sequence)});
}

bool CollectiveRun::rewind() {
  if (!is_direct_ || generation_ != place_->plans.generation()) {
    return false;
  }
  direct_.rewind();
  return true;
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

/// The member at `seat` disagrees: about this call, or about an earlier one.
Failure CollectiveRun::disagreement(const OpContext& context, int seat,
                                    std::uint64_t theirs) const {
  const int rank = group_rank(seat);
  std::string text = describe_difference(context, call_->fingerprint, theirs, rank);
  if (theirs == call_->fingerprint) {
    const auto earlier = direct_.earlier_difference(seat);
    text = earlier ? fmt::format("{} ({} calls later)",
                                 describe_difference(context, earlier->mine, earlier->theirs, rank),
                                 earlier->back)
                   : fmt::format(
                         "{}: rank {} and this rank called different operations before; every "
                         "rank must call the same operations in the same order",
                         describe(context), rank);
  }
  return {.kind = ErrorKind::mismatch, .text = std::move(text), .peer = rank};
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
    return disagreement(context, direct_.mismatch_seat(), direct_.mismatch_fingerprint());
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
    return disagreement(context, seat, theirs);
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
