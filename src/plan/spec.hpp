// The table of operations: one row says what goes in, what comes out, whether it reduces and what
// its adjoint is. Validation, selection, messages, bus bandwidth, the plan checker and the tests
// all read this table, so that adding an operation is adding a row (and its plans).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

enum class Op : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  scatter,
  gather,
  all_to_all,
  barrier,
  send,
  recv,
};

/// How much data one side of an operation has: none, one rank's share, every rank's share.
enum class Part : std::uint8_t { none, block, world };
/// Which ranks have that side.
enum class On : std::uint8_t { every_rank, root };

struct Side {
  Part part = Part::none;
  On on = On::every_rank;
  bool operator==(const Side&) const = default;

  /// Whether a rank has this side at all.
  constexpr bool on_rank(int rank, int root) const {
    return part != Part::none && (on == On::every_rank || rank == root);
  }
  /// Shares that a rank has on this side: 0, 1 or the world size.
  constexpr int shares(int rank, int root, int size) const {
    if (!on_rank(rank, root)) {
      return 0;
    }
    return part == Part::world ? size : 1;
  }
};

struct Spec {
  Op op{};
  std::string_view name{};
  Side in{};
  Side out{};
  bool reduces = false;
  bool cuts = false;  // plans cut the one block into `size` shares, blocks of both buffers
  std::optional<Op> adjoint{};
  double (*bus_factor)(int size) = [](int) { return 1.0; };  // busbw = algbw * bus_factor(size)

  constexpr bool rooted() const { return in.on == On::root || out.on == On::root; }
  /// Whether who contributes has a block for every rank, so that a contribution grows with them.
  constexpr bool block_per_rank() const { return in.part == Part::world; }
  constexpr bool point_to_point() const { return op == Op::send || op == Op::recv; }
};

/// Share of the data that has to cross a rank's link when one share of `size` is already there.
constexpr double moved_share(int size) { return (size - 1.0) / size; }

inline constexpr std::array kSpecs{
    Spec{.op = Op::all_reduce,
         .name = "all_reduce",
         .in = {Part::block},
         .out = {Part::block},
         .reduces = true,
         .cuts = true,
         .adjoint = Op::all_reduce,
         .bus_factor = [](int size) { return 2 * moved_share(size); }},
    Spec{.op = Op::reduce,
         .name = "reduce",
         .in = {Part::block},
         .out = {Part::block, On::root},
         .reduces = true,
         .cuts = true,
         .adjoint = Op::broadcast},
    Spec{.op = Op::broadcast,
         .name = "broadcast",
         .in = {Part::block, On::root},
         .out = {Part::block},
         .cuts = true,
         .adjoint = Op::reduce},
    Spec{.op = Op::all_gather,
         .name = "all_gather",
         .in = {Part::block},
         .out = {Part::world},
         .adjoint = Op::reduce_scatter,
         .bus_factor = moved_share},
    Spec{.op = Op::reduce_scatter,
         .name = "reduce_scatter",
         .in = {Part::world},
         .out = {Part::block},
         .reduces = true,
         .adjoint = Op::all_gather,
         .bus_factor = moved_share},
    Spec{.op = Op::scatter,
         .name = "scatter",
         .in = {Part::world, On::root},
         .out = {Part::block},
         .adjoint = Op::gather,
         .bus_factor = moved_share},
    Spec{.op = Op::gather,
         .name = "gather",
         .in = {Part::block},
         .out = {Part::world, On::root},
         .adjoint = Op::scatter,
         .bus_factor = moved_share},
    Spec{.op = Op::all_to_all,
         .name = "all_to_all",
         .in = {Part::world},
         .out = {Part::world},
         .adjoint = Op::all_to_all,
         .bus_factor = moved_share},
    Spec{.op = Op::barrier, .name = "barrier"},
    Spec{.op = Op::send, .name = "send", .in = {Part::block}, .adjoint = Op::recv},
    Spec{.op = Op::recv, .name = "recv", .out = {Part::block}, .adjoint = Op::send},
};

constexpr const Spec& spec(Op op) { return kSpecs[static_cast<std::size_t>(op)]; }

static_assert(kSpecs.size() == static_cast<std::size_t>(Op::recv) + 1, "one row per operation");
static_assert(std::all_of(kSpecs.begin(), kSpecs.end(),
                          [](const Spec& row) { return &spec(row.op) == &row; }),
              "rows stand in the order of the enum");
static_assert(std::all_of(kSpecs.begin(), kSpecs.end(),
                          [](const Spec& row) {
                            return !row.adjoint || (spec(*row.adjoint).in == row.out &&
                                                    spec(*row.adjoint).out == row.in &&
                                                    spec(*row.adjoint).adjoint == row.op);
                          }),
              "an adjoint moves the data the other way, and its own adjoint leads back");
static_assert(std::all_of(kSpecs.begin(), kSpecs.end(),
                          [](const Spec& row) {
                            return !row.cuts ||
                                   (row.in.part == Part::block && row.out.part == Part::block);
                          }),
              "only an operation of one block on both sides is cut into shares");

/// Blocks that buffer `in` of a message plan has on a rank (see plan.hpp).
constexpr int plan_in_blocks(Op op, int rank, int root, int size) {
  const Spec& row = spec(op);
  return row.cuts && row.in.on_rank(rank, root) ? size : row.in.shares(rank, root, size);
}
/// Blocks that buffer `out` of a message plan has on a rank.
constexpr int plan_out_blocks(Op op, int rank, int root, int size) {
  const Spec& row = spec(op);
  return row.cuts && row.out.on_rank(rank, root) ? size : row.out.shares(rank, root, size);
}

}  // namespace tutti
