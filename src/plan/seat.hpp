// Seat: where a rank sits in the group a plan is made for.
#pragma once

namespace tutti {

struct Seat {
  int rank = 0;
  int size = 1;
  constexpr bool has(int other) const { return other >= 0 && other < size; }
  constexpr int at(int distance) const { return ((rank + distance) % size + size) % size; }
  constexpr int next() const { return at(1); }
  constexpr int prev() const { return at(-1); }
  /// Steps forward from this rank to `other`, 0 .. size-1.
  constexpr int distance_to(int other) const { return ((other - rank) % size + size) % size; }
};

}  // namespace tutti
