// What a rank sets aside in shared memory is what docs/architecture.md says, and does not grow with
// the number of groups that come and go, nor with the calls made.
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::testing {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kPage = 4 * kKiB;

InitOptions shared_memory() { return {.transport = "shm"}; }

class SharedMemory : public ::testing::TestWithParam<int> {};

TEST_P(SharedMemory, OfARankIsARingPerPeerAndAnAreaPerGroup) {
  const int size = GetParam();
  run_thread_ranks(
      size,
      [size](Context& context) {
        const MemoryUse joined = context.memory();
        const auto peers = static_cast<std::size_t>(size - 1);
        EXPECT_EQ(joined.message_rings, peers * 132 * kKiB);
        EXPECT_LE(joined.per_group, 1434 * kKiB);
        EXPECT_EQ(joined.set_aside, kPage + joined.message_rings + joined.per_group);
        EXPECT_LE(joined.resident, joined.set_aside);
        Group pair = context.new_group();
        EXPECT_EQ(context.memory().set_aside, joined.set_aside + joined.per_group);
        context.destroy_group(pair);
      },
      shared_memory());
}

TEST_P(SharedMemory, OfAnIdleRankIsHardlyTouched) {
  const int size = GetParam();
  run_thread_ranks(
      size,
      [size](Context& context) {
        barrier(context.world());
        // Every ring's first page, the group's area but for its data, and the mark.
        EXPECT_LE(context.memory().resident, (static_cast<std::size_t>(size) + 24) * kPage);
      },
      shared_memory());
}

TEST_P(SharedMemory, IsUsedAgainByTheNextGroups) {
  constexpr int kGroups = 20;
  run_thread_ranks(
      GetParam(),
      [](Context& context) {
        const MemoryUse joined = context.memory();
        const Tensor tensor = Tensor::full({std::int64_t{1} << 19}, 1);  // 2 MiB
        for (int i = 0; i < kGroups; ++i) {
          Group group = context.new_group();
          all_reduce(group, tensor);
          context.destroy_group(group);
          // An area is free once all members have left, which the slowest of them is just doing.
          EXPECT_LE(context.memory().set_aside, joined.set_aside + 3 * joined.per_group);
        }
      },
      shared_memory());
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemory, ::testing::Values(2, 4),
                         [](const auto& param) { return std::to_string(param.param) + "ranks"; });

}  // namespace
}  // namespace tutti::testing
