// SlotStore: which way of writing into a slot it settles on, given what copies take.
#include "engine/slot_store.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

/// Makes `count` copies that take `cached` or `streaming` nanoseconds; returns how many of them
/// streamed.
int copies(SlotStore& ways, int count, int cached, int streaming) {
  int streamed = 0;
  for (int i = 0; i < count; ++i) {
    const StoreType store = ways.next();
    const bool streams = store == StoreType::streaming;
    ways.note(store, kBytes, std::chrono::nanoseconds(streams ? streaming : cached));
    streamed += streams ? 1 : 0;
  }
  return streamed;
}

TEST(SlotStore, FollowsThePlacement) {
  SlotStore ways;
  EXPECT_LT(copies(ways, 1000, 3000, 6000), 50) << "near: cached, but for the trials";
  EXPECT_GT(copies(ways, 1000, 20000, 6000), 900) << "the threads were moved apart";
  EXPECT_LT(copies(ways, 1000, 3000, 6000), 200) << "and together again, as trials show";
}

TEST(SlotStore, OneInterruptedCopyDecidesNothing) {
  SlotStore ways;
  copies(ways, 100, 3000, 6000);
  const StoreType before = ways.for_result(kBytes);
  ways.note(before, kBytes, std::chrono::milliseconds(4));
  EXPECT_EQ(ways.for_result(kBytes), before);
}

TEST(SlotStore, EqualWaysAreNotChangedToAndFro) {
  SlotStore ways;
  EXPECT_LT(copies(ways, 1000, 5000, 4800), 50);
}

TEST(SlotStore, ShortResultsAreCached) {
  SlotStore ways;
  copies(ways, 1000, 20000, 6000);
  ASSERT_EQ(ways.for_result(kBytes), StoreType::streaming);
  EXPECT_EQ(ways.for_result(SlotStore::kLeastBytes - 1), StoreType::cached);
}

}  // namespace
}  // namespace tutti
