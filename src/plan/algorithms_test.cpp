// Every row of the table, proved by the symbolic checker for world sizes 1 .. 64.
#include "plan/algorithms.hpp"

#include "plan/check.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr int kMaxSize = 64;
constexpr int kEveryRootUpTo = 9;

std::vector<int> roots(const Algorithm& row, int size) {
  if (!spec(row.op).rooted()) {
    return {0};
  }
  std::set<int> some{0, size / 2, size - 1};
  for (int root = 0; root < size && size <= kEveryRootUpTo; ++root) {
    some.insert(root);
  }
  return {some.begin(), some.end()};
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, DoesWhatItsOperationIsDefinedToDo) {
  for (int size = 1; size <= kMaxSize; ++size) {
    if (!GetParam().suits({0, size})) {
      continue;
    }
    for (const int root : roots(GetParam(), size)) {
      ASSERT_EQ(check_algorithm(GetParam(), size, root), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm,
                         testing::ValuesIn(kMessageAlgorithms.begin(), kMessageAlgorithms.end()),
                         [](const testing::TestParamInfo<Algorithm>& row) {
                           return fmt::format("{}_{}", spec(row.param.op).name, row.param.name);
                         });

TEST(Algorithms, HasARowForEveryCollective) {
  for (const Spec& row : kSpecs) {
    EXPECT_EQ(algorithm_names(row.op).empty(), row.point_to_point()) << row.name;
  }
}

TEST(Algorithms, HasARankOrderRowForEveryReduction) {
  for (const Spec& row : kSpecs) {
    bool found = false;
    for (const Algorithm& algorithm : kMessageAlgorithms) {
      found = found || (algorithm.op == row.op && algorithm.sum == Sum::rank_order);
    }
    EXPECT_EQ(found, row.reduces) << row.name;
  }
}

TEST(Algorithms, FindsRowsByName) {
  const Algorithm* ring = find_algorithm(Op::all_gather, "ring");
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->op, Op::all_gather);
  EXPECT_EQ(find_algorithm(Op::barrier, "ring"), nullptr);
  EXPECT_EQ(algorithm_names(Op::scatter), "linear, binomial");
}

}  // namespace
}  // namespace tutti
