// The symbolic checker: runs the plans of all ranks together on expressions instead of bytes and
// proves, for one world size and root, that they do what the operation's definition says.
//
// It holds a plan to everything plan.hpp promises the engine:
// - every block that the definition names ends with exactly that content: moved from the right
//   rank, or every rank's contribution combined once, loaded once, finished once; everything else
//   untouched; blocks reduced on several ranks by the same expression tree (equal bits);
// - every send meets one receive of as many, equally large blocks of one dtype; under rendezvous
//   (a send ends only when it is received) every rank comes to its end: no deadlock;
// - nothing is read before it is written, or after something that may share its memory was; no
//   step in flight writes what another step of the round reads or writes; no input is written.
#pragma once

#include "plan/algorithms.hpp"
#include "plan/plan.hpp"
#include "plan/spec.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// What a block of `out` has to hold in the end.
struct Content {
  enum class Kind : std::uint8_t {
    anything,
    untouched,  // never written
    input,      // block `block` of what `rank` brought
    reduced,    // block `block` of every rank, combined
  };
  Kind kind = Kind::anything;
  int rank = 0;
  int block = 0;
};

/// The meaning of an operation: the contents of `out` on rank `me`, one per block.
using Definition = std::function<std::vector<Content>(Op op, Seat me, int root)>;
/// What semantics the library gives its operations.
std::vector<Content> standard_definition(Op op, Seat me, int root);

struct PlanCase {
  Op op{};
  std::string_view algorithm{};
  int root = 0;
  Sum sum = Sum::in_passing;  // rank_order: the reduced trees have to be those of rank order
};

/// Checks the plans of ranks 0 .. plans.size()-1 together. Returns "" or the first fault, which
/// names operation, algorithm, world size, rank, round and step (rounds and steps count from 0).
std::string check_plans(const PlanCase& what, std::span<const Plan> plans,
                        const Definition& definition = standard_definition);

/// Makes the plans of a table row for every rank and checks them.
std::string check_algorithm(const Algorithm& row, int size, int root);

}  // namespace tutti
