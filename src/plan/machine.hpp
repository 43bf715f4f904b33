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

/// One block of a message.
struct Carried {
  Expressions::Id value = -1;
  int share = 0;  // see Machine::Cell::share
};
using Cargo = std::vector<Carried>;

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

  int blocks(Buffer buffer) const { return counts_[static_cast<std::size_t>(buffer)]; }
  Expressions::Id value(Buffer buffer, int block) const { return cell(buffer, block).value; }
  /// "out block 3 holds ..."
  std::string text(Buffer buffer, int block) const;

 private:
  /// One block of a buffer. Cells are named by their index in cells_.
  struct Cell {
    Buffer buffer{};
    int block = 0;
    int share = 0;  // blocks of one share number are equally large on all ranks
    std::array<int, 2> aliases{-1, -1};  // cells that may be the same memory
    Expressions::Id value = kUnwritten;
    bool loaded = false;
    int flight = -1;      // the round that read_by and written_by are about
    int read_by = -1;     // step
    int written_by = -1;  // step
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int index(Buffer buffer, int block) const {
    return starts_[static_cast<std::size_t>(buffer)] + block;
  }
  const Cell& cell(Buffer buffer, int block) const { return cells_[at(index(buffer, block))]; }
  /// The cell, with its marks of an earlier round wiped.
  Cell& marked(int index);
  /// Index of the i-th cell of a range.
  int cell_of(Range range, int i) const {
    return index(range.buffer, (range.first + i) % blocks(range.buffer));
  }

  void add_cells(Buffer buffer, int count);
  void find_aliases();
  int share(Buffer buffer, int block) const;

  std::string check_range(Range range) const;
  std::string check_target(Range range) const;
  std::string check_pair(Range from, Range to) const;
  std::string read(int source, Expressions::Id& value) const;
  std::string write(int target, Expressions::Id value);
  std::string reduce_held(const Step& step);
  std::string take_in(const Step& recv, int target, const Carried& carried);
  std::string mark_reads(const Step& step, int step_index);
  std::string mark_writes(const Step& step, int step_index);
  std::string check_unused(int target, bool reduces);

  Op op_;
  Seat seat_;
  int root_;
  Expressions& expressions_;
  std::array<int, 4> counts_{};  // cells per buffer
  std::array<int, 4> starts_{};  // and where they begin
  std::vector<Cell> cells_{};
  int flight_ = -1;
};

}  // namespace tutti
