#include "plan/direct_plan.hpp"

#include "base/ensure.hpp"

#include <array>

namespace tutti {
namespace {

using Kind = DirectStep::Kind;
using Peers = DirectStep::Peers;
using Pieces = DirectStep::Pieces;

constexpr DirectStep copy_in(Pieces pieces) { return {.kind = Kind::copy_in, .pieces = pieces}; }
constexpr DirectStep copy_self(Piece from, Piece to) {
  return {.kind = Kind::copy_self, .from = from, .to = to};
}
constexpr DirectStep fetch(Peers peers, Piece from, Piece to) {
  return {.kind = Kind::fetch, .peers = peers, .from = from, .to = to};
}
constexpr DirectStep wait(Peers peers) { return {.kind = Kind::wait, .peers = peers}; }
constexpr DirectStep reduce_to_output(Piece from, Piece to) {
  return {.kind = Kind::reduce, .from = from, .to = to, .to_output = true};
}
constexpr DirectStep kCall{.kind = Kind::call};
constexpr DirectStep kReuse{.kind = Kind::reuse};

DirectStep at(DirectStep step, int lag, int post, int posted_lag) {
  step.lag = static_cast<std::uint8_t>(lag);
  step.post = static_cast<std::uint8_t>(post);
  step.posted_lag = static_cast<std::uint8_t>(posted_lag);
  return step;
}

/// One phase: every rank that contributes puts its data into its slot; every rank that wants some
/// takes it from there. `take` are the steps that follow the announcement.
struct OnePhase {
  Cut cut = Cut::whole;
  bool contributes = true;
  Pieces pieces = Pieces::all;
  std::vector<DirectStep> self{};
  std::vector<DirectStep> take{};
  bool symmetric = true;
  Peers readers = Peers::others;
};

OnePhase one_phase(Op op, Seat me, int root) {
  const bool is_root = me.rank == root;
  switch (op) {
    case Op::barrier:
      return {.contributes = false, .take = {wait(Peers::others)}};
    case Op::all_reduce:
      return {.take = {wait(Peers::others), reduce_to_output(Piece::zero, Piece::zero)}};
    case Op::reduce:
      return {.contributes = !is_root,
              .take = is_root ? std::vector{wait(Peers::others),
                                            reduce_to_output(Piece::zero, Piece::zero)}
                              : std::vector<DirectStep>{},
              .symmetric = false,
              .readers = Peers::root};
    case Op::broadcast:
      return {.contributes = is_root,
              .self = is_root ? std::vector{copy_self(Piece::zero, Piece::zero)}
                              : std::vector<DirectStep>{},
              .take = is_root ? std::vector<DirectStep>{}
                              : std::vector{fetch(Peers::root, Piece::zero, Piece::zero)},
              .symmetric = false};
    case Op::all_gather:
      return {.self = {copy_self(Piece::zero, Piece::mine)},
              .take = {fetch(Peers::others, Piece::zero, Piece::theirs)}};
    case Op::gather:
      return {.contributes = !is_root,
              .self = is_root ? std::vector{copy_self(Piece::zero, Piece::mine)}
                              : std::vector<DirectStep>{},
              .take = is_root ? std::vector{fetch(Peers::others, Piece::zero, Piece::theirs)}
                              : std::vector<DirectStep>{},
              .symmetric = false,
              .readers = Peers::root};
    case Op::scatter:
      return {.cut = Cut::blocks,
              .contributes = is_root,
              .pieces = Pieces::others,
              .self = is_root ? std::vector{copy_self(Piece::mine, Piece::zero)}
                              : std::vector<DirectStep>{},
              .take = is_root ? std::vector<DirectStep>{}
                              : std::vector{fetch(Peers::root, Piece::mine, Piece::zero)},
              .symmetric = false};
    case Op::reduce_scatter:
      return {.cut = Cut::blocks,
              .pieces = Pieces::others,
              .take = {wait(Peers::others), reduce_to_output(Piece::mine, Piece::zero)}};
    case Op::all_to_all:
      return {.cut = Cut::blocks,
              .pieces = Pieces::others,
              .self = {copy_self(Piece::mine, Piece::mine)},
              .take = {fetch(Peers::others, Piece::mine, Piece::theirs)}};
    case Op::send:
    case Op::recv:
      break;
  }
  ensure(false, "point to point has no direct plan");
  return {};
}

DirectPlan inlined(Op op, Seat me, int root) {
  const OnePhase phase = one_phase(op, me, root);
  DirectPlan plan{.protocol = Protocol::inlined,
                  .cut = phase.cut,
                  .root = root,
                  .symmetric = phase.symmetric,
                  .readers = phase.readers};
  if (phase.contributes) {
    plan.steps.push_back(copy_in(phase.pieces));
  }
  plan.steps.push_back(kCall);
  plan.steps.insert(plan.steps.end(), phase.self.begin(), phase.self.end());
  plan.steps.insert(plan.steps.end(), phase.take.begin(), phase.take.end());
  return plan;
}

DirectPlan staged(Op op, Seat me, int root, int lookahead) {
  const OnePhase phase = one_phase(op, me, root);
  DirectPlan plan{.protocol = Protocol::staged,
                  .cut = phase.cut,
                  .posts = 1,
                  .lag = lookahead,
                  .root = root,
                  .symmetric = phase.symmetric,
                  .readers = phase.readers};
  if (phase.contributes) {
    plan.steps.push_back(kReuse);
    plan.steps.push_back(copy_in(phase.pieces));
  }
  for (const DirectStep& step : phase.self) {
    plan.steps.push_back(step);
  }
  // Ranks that contribute nothing post as well: it tells the others how far they have read.
  plan.steps.push_back(at({.kind = Kind::publish}, 0, 1, 0));
  for (const DirectStep& step : phase.take) {
    plan.steps.push_back(at(step, lookahead, 1, 0));
  }
  return plan;
}

/// all_reduce and reduce of large data: each rank reduces its share of a segment, leaves the result
/// in its slot, and whoever wants the whole gathers the shares.
DirectPlan staged_shares(Op op, Seat me, int root, int lookahead) {
  const bool wants_all = op == Op::all_reduce || me.rank == root;
  DirectStep reduce{.kind = Kind::reduce, .from = Piece::mine, .to = Piece::mine};
  reduce.to_output = wants_all;
  reduce.to_slot = op == Op::all_reduce || !wants_all;
  DirectPlan plan{
      .protocol = Protocol::staged, .cut = Cut::shares, .posts = 2, .lag = lookahead, .root = root};
  plan.steps = {kReuse,
                copy_in(Pieces::others),
                at({.kind = Kind::publish}, 0, 1, 0),
                at(wait(Peers::others), lookahead, 1, 0),
                at(reduce, lookahead, 0, 0),
                at({.kind = Kind::publish}, lookahead, 2, 0)};
  if (wants_all) {
    plan.steps.push_back(
        at(fetch(Peers::others, Piece::theirs, Piece::theirs), lookahead, 2, lookahead));
  }
  return plan;
}

DirectPlan arrival(int root) {
  return {.protocol = Protocol::arrival,
          .cut = Cut::whole,
          .steps = {copy_in(Pieces::all), kCall, {.kind = Kind::arrive}},
          .root = root};
}

}  // namespace

std::string_view name(Protocol protocol) {
  constexpr std::array<std::string_view, 3> kNames{"direct_inlined", "direct_arrival",
                                                   "direct_staged"};
  return kNames[static_cast<std::size_t>(protocol)];
}

bool has_direct_plan(Op op, Protocol protocol) {
  switch (protocol) {
    case Protocol::inlined:
      return !spec(op).point_to_point();
    case Protocol::arrival:
      return op == Op::all_reduce;
    case Protocol::staged:
      return !spec(op).point_to_point() && op != Op::barrier;
  }
  return false;
}

DirectPlan direct_plan(Op op, Protocol protocol, Seat me, int root, int lookahead) {
  ensure(has_direct_plan(op, protocol), "the operation has a plan under this protocol");
  switch (protocol) {
    case Protocol::inlined:
      return inlined(op, me, root);
    case Protocol::arrival:
      return arrival(root);
    case Protocol::staged:
      break;
  }
  return op == Op::all_reduce || op == Op::reduce ? staged_shares(op, me, root, lookahead)
                                                  : staged(op, me, root, lookahead);
}

}  // namespace tutti
