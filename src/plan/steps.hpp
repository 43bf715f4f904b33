// Short spellings for the steps of a message plan, and the little arithmetic on ranks that several
// families share. Only plan functions use them.
#pragma once

#include "plan/plan.hpp"

#include <initializer_list>
#include <vector>

namespace tutti::step {

constexpr Range block(Buffer buffer, int index) { return {buffer, index, 1}; }
/// All `size` blocks of a buffer.
constexpr Range whole(Buffer buffer, int size) { return {buffer, 0, size}; }
/// The same blocks in another buffer.
constexpr Range same(Buffer buffer, Range range) { return {buffer, range.first, range.count}; }

constexpr Step send(int peer, Range blocks) {
  return {.kind = Step::Kind::send, .peer = peer, .blocks = blocks};
}
constexpr Step recv(int peer, Range blocks) {
  return {.kind = Step::Kind::recv, .peer = peer, .blocks = blocks};
}
/// Combines what `peer` sends into these blocks of acc.
constexpr Step recv_reduce(int peer, Range blocks) {
  return {.kind = Step::Kind::recv_reduce, .peer = peer, .blocks = same(Buffer::acc, blocks)};
}
constexpr Step copy(Range blocks, Range to) {
  return {.kind = Step::Kind::copy, .blocks = blocks, .to = to};
}
/// Blocks of in -> the same blocks of acc.
constexpr Step load(Range blocks) {
  return {.kind = Step::Kind::load,
          .blocks = same(Buffer::in, blocks),
          .to = same(Buffer::acc, blocks)};
}
/// Blocks of acc -> `to`.
constexpr Step finish(Range blocks, Range to) {
  return {.kind = Step::Kind::finish, .blocks = same(Buffer::acc, blocks), .to = to};
}
/// Block `index` of in and every held block -> `to`.
constexpr Step reduce_held(int index, Range to) {
  return {.kind = Step::Kind::reduce_held, .blocks = block(Buffer::in, index), .to = to};
}

inline void add(Plan& plan, std::initializer_list<Step> steps) { plan.rounds.push_back({steps}); }
/// Adds a round unless it is empty.
inline void add(Plan& plan, std::vector<Step> steps) {
  if (!steps.empty()) {
    plan.rounds.push_back({std::move(steps)});
  }
}

}  // namespace tutti::step
