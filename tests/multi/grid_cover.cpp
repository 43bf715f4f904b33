#include "multi/grid_cover.hpp"

#include "base/ensure.hpp"

#include <array>
#include <span>
#include <utility>

namespace tutti::grid {
namespace {

constexpr int kCandidates = 60;
constexpr int kAttempts = 4000;

/// Numbers every pair of factor values, and every (form, algorithm, world size), one after another.
class Goals {
 public:
  Goals() {
    std::size_t next = 0;
    for (std::size_t f = 0; f < kFactorCount; ++f) {
      size_[f] = values_of(static_cast<Factor>(f)).size();
    }
    for (std::size_t f = 0; f < kFactorCount; ++f) {
      for (std::size_t g = f + 1; g < kFactorCount; ++g) {
        start_[f][g] = next;
        next += size_[f] * size_[g];
      }
    }
    pairs_ = next;
    all_ = pairs_ + size(Factor::form) * size(Factor::algorithm) * size(Factor::world);
  }

  std::size_t all() const { return all_; }
  bool is_pair(std::size_t goal) const { return goal < pairs_; }

  template <class Visit>
  void each(const Case& test, Visit visit) const {
    for (std::size_t f = 0; f < kFactorCount; ++f) {
      for (std::size_t g = f + 1; g < kFactorCount; ++g) {
        visit(start_[f][g] + test.level[f] * size_[g] + test.level[g]);
      }
    }
    visit(pairs_ +
          (test[Factor::form] * size(Factor::algorithm) + test[Factor::algorithm]) *
              size(Factor::world) +
          test[Factor::world]);
  }

  /// Sets the levels that `goal` is about and marks them in `fixed`.
  void fix(std::size_t goal, Case& test, std::array<bool, kFactorCount>& fixed) const {
    const auto set = [&](Factor factor, std::size_t value) {
      test[factor] = static_cast<std::uint8_t>(value);
      fixed[static_cast<std::size_t>(factor)] = true;
    };
    if (!is_pair(goal)) {
      goal -= pairs_;
      set(Factor::world, goal % size(Factor::world));
      goal /= size(Factor::world);
      set(Factor::algorithm, goal % size(Factor::algorithm));
      set(Factor::form, goal / size(Factor::algorithm));
      return;
    }
    for (std::size_t f = 0; f < kFactorCount; ++f) {
      for (std::size_t g = f + 1; g < kFactorCount; ++g) {
        if (goal >= start_[f][g] && goal < start_[f][g] + size_[f] * size_[g]) {
          set(static_cast<Factor>(f), (goal - start_[f][g]) / size_[g]);
          set(static_cast<Factor>(g), (goal - start_[f][g]) % size_[g]);
        }
      }
    }
  }

  std::size_t size(Factor factor) const { return size_[static_cast<std::size_t>(factor)]; }

 private:
  std::array<std::size_t, kFactorCount> size_{};
  std::array<std::array<std::size_t, kFactorCount>, kFactorCount> start_{};
  std::size_t pairs_ = 0;
  std::size_t all_ = 0;
};

std::size_t levels(Factor factor) { return values_of(factor).size(); }

template <class Visit>
void each_level(Case test, std::span<const Factor> factors, const Visit& visit) {
  if (factors.empty()) {
    visit(test);
    return;
  }
  const Factor factor = factors.front();
  for (std::size_t value = 0; value < levels(factor); ++value) {
    test[factor] = static_cast<std::uint8_t>(value);
    each_level(test, factors.subspan(1), visit);
  }
}

/// Marks every goal that some legal case meets. In three steps, because most of the product is
/// refused by the first or the second.
std::vector<bool> legal_goals(const Goals& goals) {
  std::vector<bool> wanted(goals.all());
  constexpr std::array kCall{Factor::form, Factor::reduce, Factor::algorithm};
  constexpr std::array kShape{Factor::values, Factor::dtype, Factor::world, Factor::transport,
                              Factor::count};
  constexpr std::array kRest{Factor::layout, Factor::mode};
  const auto mark = [&](const Case& test) {
    if (legal(test)) {
      goals.each(test, [&](std::size_t goal) { wanted[goal] = true; });
    }
  };
  const auto mark_rest = [&](const Case& shaped) {
    if (legal(shaped)) {
      each_level(shaped, kRest, mark);
    }
  };
  each_level({}, kCall, [&](const Case& call) {
    if (exists(call)) {
      each_level(call, kShape, mark_rest);
    }
  });
  return wanted;
}

using Fixed = std::array<bool, kFactorCount>;

/// Draws the factors that are not fixed, such that most draws are legal.
void draw(Rng& rng, const Fixed& fixed, Case& test) {
  const auto set = [&](Factor factor, std::uint64_t value) {
    if (!fixed[static_cast<std::size_t>(factor)]) {
      test[factor] = static_cast<std::uint8_t>(value);
    }
  };
  for (std::size_t f = 0; f < kFactorCount; ++f) {
    set(static_cast<Factor>(f), rng.below(levels(static_cast<Factor>(f))));
  }
  if (!spec(test.op()).reduces) {
    set(Factor::reduce, 0);
    set(Factor::values, 0);
  } else if (!test.reduces()) {
    set(Factor::reduce, 1 + rng.below(levels(Factor::reduce) - 1));
  }
  if (test.op() == Op::barrier) {
    set(Factor::dtype, 0);
    set(Factor::count, 0);
    set(Factor::layout, 0);
  }
}

/// The candidate that meets most open goals, among legal ones that meet `goal`.
Case best_case(Rng& rng, const Goals& goals, const std::vector<bool>& open, std::size_t goal) {
  Case best;
  std::size_t best_score = 0;
  int found = 0;
  for (int attempt = 0; attempt < kAttempts && found < kCandidates; ++attempt) {
    Case test;
    Fixed fixed{};
    goals.fix(goal, test, fixed);
    draw(rng, fixed, test);
    if (!legal(test)) {
      continue;
    }
    ++found;
    std::size_t score = 0;
    goals.each(test, [&](std::size_t met) { score += open[met] ? 1 : 0; });
    if (score > best_score) {
      best_score = score;
      best = test;
    }
  }
  ensure(best_score > 0, "a goal that some legal case meets is found by drawing");
  return best;
}

std::vector<std::size_t> shuffled(Rng& rng, const std::vector<bool>& wanted) {
  std::vector<std::size_t> order;
  for (std::size_t goal = 0; goal < wanted.size(); ++goal) {
    if (wanted[goal]) {
      order.push_back(goal);
    }
  }
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.below(i)]);
  }
  return order;
}

}  // namespace

Cover make_cover(std::uint64_t seed) {
  const Goals goals;
  const std::vector<bool> wanted = legal_goals(goals);
  Rng rng(seed);
  Cover cover;
  std::vector<bool> open = wanted;
  for (const std::size_t goal : shuffled(rng, wanted)) {
    ++(goals.is_pair(goal) ? cover.pairs : cover.triples);
    if (open[goal]) {
      Case test = best_case(rng, goals, open, goal);
      test.seed = seed;
      goals.each(test, [&](std::size_t met) { open[met] = false; });
      cover.cases.push_back(test);
    }
  }
  count_covered(cover);
  return cover;
}

void count_covered(Cover& cover) {
  const Goals goals;
  std::vector<bool> met(goals.all());
  for (const Case& test : cover.cases) {
    ensure(legal(test), "the cover holds legal cases only");
    goals.each(test, [&](std::size_t goal) { met[goal] = true; });
  }
  cover.covered_pairs = 0;
  cover.covered_triples = 0;
  for (std::size_t goal = 0; goal < met.size(); ++goal) {
    if (met[goal]) {
      ++(goals.is_pair(goal) ? cover.covered_pairs : cover.covered_triples);
    }
  }
}

Case random_case(Rng& rng, std::uint64_t seed) {
  for (;;) {
    Case test;
    draw(rng, {}, test);
    test.seed = seed;
    if (legal(test)) {
      return test;
    }
  }
}

}  // namespace tutti::grid
