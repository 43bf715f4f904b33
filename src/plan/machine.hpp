// One rank of the symbolic checker: its four buffers and the rules for touching them. The checker
// (check.cpp) moves messages between machines.
#pragma once

#include "plan/expressions.hpp"
#include "plan/plan.hpp"
#include "plan/spec.hpp"

#include <array>
#include <string>
#include <vector>

namespace tutti {

/// What a message carries: one entry per block.
struct Cargo {
  std::vector<Expressions::Id> values{};
  std::vector<int> shares{};  // which blocks are equally large on all ranks: see Machine::share
};

class Machine {
 public:
  static constexpr Expressions::Id kUnwritten = -2;
  static constexpr Expressions::Id kOverwritten = -3;  // by something that may share its memory

  Machine(Op op, Seat seat, int root, Expressions& expressions);

  /// Each returns "" or what is wrong with the step.
  std::string run_local(const Step& step);
  std::string take_from(const Step& send, Cargo& cargo);
  std::string give_to(const Step& recv, const Cargo& cargo);
  /// The rules about steps in flight together.
  std::string check_flight(const Round& round);

  int blocks(Buffer buffer) const { return static_cast<int>(of(buffer).size()); }
  Expressions::Id value(Buffer buffer, int block) const { return of(buffer)[at(block)].value; }
  /// "out block 3 holds ..."
  std::string text(Buffer buffer, int block) const;

 private:
  struct Cell {
    Expressions::Id value = kUnwritten;
    bool loaded = false;
    int read_by = -1;     // step of the round being checked
    int written_by = -1;  // likewise
  };
  struct Place {
    Buffer buffer;
    int block;
  };
  using Cells = std::vector<Cell>;

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  Cells& of(Buffer buffer) { return cells_[static_cast<std::size_t>(buffer)]; }
  const Cells& of(Buffer buffer) const { return cells_[static_cast<std::size_t>(buffer)]; }
  Cell& of(Place place) { return of(place.buffer)[at(place.block)]; }

  std::vector<Place> places(Range range) const;
  /// Places that may be the same memory as this one.
  std::vector<Place> aliases(Place place) const;
  /// Blocks of one share number are equally large, on whatever rank and in whatever buffer.
  int share(Place place) const;

  std::string check_range(Range range) const;
  std::string check_target(Range range) const;
  std::string check_pair(Range from, Range to) const;
  std::string read(Place place, Expressions::Id& value);
  std::string write(Place place, Expressions::Id value);
  std::string reduce_held(const Step& step);
  std::string mark_reads(const Step& step, int index);
  std::string mark_writes(const Round& round, int index);

  Op op_;
  Seat seat_;
  int root_;
  Expressions& expressions_;
  std::array<Cells, 4> cells_;
};

}  // namespace tutti
