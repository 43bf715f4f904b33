// The rows. Every one is proved for world sizes 1 .. 64 by algorithms_test.cpp.
#include "plan/algorithms.hpp"

#include "plan/dissemination.hpp"
#include "plan/doubling.hpp"
#include "plan/linear.hpp"
#include "plan/pairwise.hpp"
#include "plan/ring.hpp"
#include "plan/tree.hpp"

#include <array>

namespace tutti {

namespace {

template <Plan (*kPlan)(Seat)>
Plan unrooted(Seat me, int) {
  return kPlan(me);
}

bool any_size(Seat) { return true; }

constexpr std::array kRows{
    Algorithm{Op::all_reduce, "ring", unrooted<ring_all_reduce>, any_size},
    Algorithm{Op::all_reduce, "recursive_doubling", unrooted<recursive_doubling_all_reduce>,
              any_size},
    Algorithm{Op::all_reduce, "halving_doubling", unrooted<halving_doubling_all_reduce>, any_size},
    Algorithm{Op::all_reduce, "pairwise", unrooted<pairwise_all_reduce>, any_size, Sum::rank_order},
    Algorithm{Op::reduce, "binomial", binomial_reduce, any_size},
    Algorithm{Op::reduce, "ring", ring_reduce, any_size},
    Algorithm{Op::reduce, "pairwise", pairwise_reduce, any_size, Sum::rank_order},
    Algorithm{Op::broadcast, "binomial", binomial_broadcast, any_size},
    Algorithm{Op::broadcast, "ring", ring_broadcast, any_size},
    Algorithm{Op::broadcast, "linear", linear_broadcast, any_size},
    Algorithm{Op::all_gather, "ring", unrooted<ring_all_gather>, any_size},
    Algorithm{Op::all_gather, "bruck", unrooted<bruck_all_gather>, any_size},
    Algorithm{Op::all_gather, "pairwise", unrooted<pairwise_all_gather>, any_size},
    Algorithm{Op::reduce_scatter, "ring", unrooted<ring_reduce_scatter>, any_size},
    Algorithm{Op::reduce_scatter, "halving", unrooted<halving_reduce_scatter>, any_size},
    Algorithm{Op::reduce_scatter, "pairwise", unrooted<pairwise_reduce_scatter>, any_size,
              Sum::rank_order},
    Algorithm{Op::scatter, "linear", linear_scatter, any_size},
    Algorithm{Op::scatter, "binomial", binomial_scatter, any_size},
    Algorithm{Op::gather, "linear", linear_gather, any_size},
    Algorithm{Op::gather, "binomial", binomial_gather, any_size},
    Algorithm{Op::all_to_all, "pairwise", unrooted<pairwise_all_to_all>, any_size},
    Algorithm{Op::all_to_all, "linear", unrooted<linear_all_to_all>, any_size},
    Algorithm{Op::barrier, "dissemination", unrooted<dissemination_barrier>, any_size},
};

}  // namespace

constinit const std::span<const Algorithm> kMessageAlgorithms{kRows};

const Algorithm* find_algorithm(Op op, std::string_view name) {
  for (const Algorithm& row : kMessageAlgorithms) {
    if (row.op == op && row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

std::string algorithm_names(Op op) {
  std::string names;
  for (const Algorithm& row : kMessageAlgorithms) {
    if (row.op != op) {
      continue;
    }
    names += names.empty() ? "" : ", ";
    names += row.name;
  }
  return names;
}

}  // namespace tutti
