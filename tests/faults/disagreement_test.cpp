// Ranks that call different things get Mismatch naming both sides: never a hang, never a wrong
// result.
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Call = std::function<void(Group&)>;

struct Disagreement {
  std::string name;
  Call most;                       ///< what ranks 0 and 2 call
  Call odd;                        ///< what rank 1 calls
  std::vector<std::string> words;  ///< all appear in some rank's text
};

Tensor ones(std::int64_t count, DType dtype = DType::f32) {
  return Tensor::full({count}, 1.0, dtype);
}

Call reduce_all(std::int64_t count, ReduceOp op = ReduceOp::sum, DType dtype = DType::f32) {
  return [=](Group& group) { all_reduce(group, ones(count, dtype), {.op = op}); };
}

/// Counts on both sides of every selection threshold, in float32 elements.
std::vector<Disagreement> disagreements() {
  std::vector<Disagreement> table;
  const std::array<std::int64_t, 7> counts{1, 1024, 1025, 8192, 8193, 20000, 300000};
  for (const std::int64_t count : counts) {
    const std::string c = std::to_string(count);
    table.push_back({"barrier_against_all_reduce_" + c,
                     reduce_all(count),
                     [](Group& group) { barrier(group); },
                     {"barrier", "all_reduce", c}});
    table.push_back(
        {"count_" + c, reduce_all(count), reduce_all(count + 1), {c, std::to_string(count + 1)}});
    table.push_back({"dtype_" + c,
                     reduce_all(count),
                     reduce_all(count, ReduceOp::sum, DType::i32),
                     {"float32", "int32"}});
    table.push_back(
        {"reduce_op_" + c, reduce_all(count), reduce_all(count, ReduceOp::max), {"sum", "max"}});
    table.push_back({"operation_" + c,
                     reduce_all(count),
                     [count](Group& group) { broadcast(group, ones(count), 0); },
                     {"all_reduce", "broadcast"}});
    for (const bool reduces : {true, false}) {
      const auto rooted = [count, reduces](int root) {
        return [=](Group& group) {
          reduces ? reduce(group, ones(count), root) : broadcast(group, ones(count), root);
          barrier(group);
        };
      };
      table.push_back({(reduces ? "reduce_root_" : "broadcast_root_") + c,
                       rooted(0),
                       rooted(1),
                       {"root 0", "root 1"}});
    }
  }
  table.push_back({"splits_against_none",
                   [](Group& group) { all_to_all_single(group, ones(6), ones(6)); },
                   [](Group& group) {
                     all_to_all_single(group, ones(6), ones(6),
                                       {.output_splits = {2, 2, 2}, .input_splits = {2, 2, 2}});
                   },
                   {"all_to_all"}});
  return table;
}

class DisagreeingRanks : public ::testing::TestWithParam<std::string> {};

TEST_P(DisagreeingRanks, GetMismatchNamingBothSides_FC_F3_FC_F5) {
  InitOptions options;
  options.transport = GetParam();
  const std::vector<Disagreement> table = disagreements();
  std::mutex mutex;
  std::vector<std::string> texts(table.size());
  testing::run_thread_ranks(
      3,
      [&](Context& context) {
        for (std::size_t i = 0; i < table.size(); ++i) {
          Group group = context.new_group({}, {.timeout = std::chrono::seconds(20)});
          const auto start = std::chrono::steady_clock::now();
          try {
            (group.rank() == 1 ? table[i].odd : table[i].most)(group);
            barrier(group);
            ADD_FAILURE() << table[i].name << ": no error on rank " << group.rank();
          } catch (const Mismatch& error) {
            const std::scoped_lock lock(mutex);
            texts[i] += error.what();
          } catch (const Error& error) {
            ADD_FAILURE() << table[i].name << ": " << error.what();
          }
          EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
              << table[i].name;
          context.destroy_group(group);
        }
      },
      options);
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (const std::string& word : table[i].words) {
      EXPECT_NE(texts[i].find(word), std::string::npos)
          << table[i].name << " lacks " << word << ": " << texts[i];
    }
  }
}

TEST_P(DisagreeingRanks, WhoseCountsCancelInASumAreStillFound) {
  InitOptions options;
  options.transport = GetParam();
  testing::run_thread_ranks(
      3,
      [](Context& context) {
        Group group = context.new_group();
        EXPECT_THROW(all_reduce(group, ones(999 + group.rank())), Mismatch);
      },
      options);
}

TEST_P(DisagreeingRanks, WhoBothTakeThemselvesForTheRootAreToldWithoutAnotherCall) {
  if (GetParam() != "shm") {
    GTEST_SKIP() << "over messages the next call tells";
  }
  for (const std::int64_t count : {1, 1000, 100000}) {
    std::atomic<int> told = 0;
    testing::run_thread_ranks(2, [&](Context& context) {
      Group group = context.new_group();
      try {
        broadcast(group, ones(count), group.rank());
      } catch (const Mismatch&) {
        ++told;
      }
      barrier(context.world());
    });
    EXPECT_GE(told, 1) << count;
  }
}

TEST_P(DisagreeingRanks, PairsOfAllToAllWithOtherCountsAreNamed) {
  InitOptions options;
  options.transport = GetParam();
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        Group group = context.new_group();
        const bool odd = group.rank() == 1;
        const SplitOptions splits{.output_splits = {2, odd ? 3 : 2},
                                  .input_splits = {2, odd ? 3 : 3}};
        const auto exchange = [&] {
          all_to_all_single(group, ones(odd ? 5 : 4), ones(5), splits);
          barrier(group);  // the rank whose messages all fitted learns of it here
        };
        EXPECT_THROW(exchange(), Mismatch);
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Transports, DisagreeingRanks, ::testing::Values("shm", "tcp"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tutti
