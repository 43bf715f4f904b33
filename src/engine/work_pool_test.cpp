#include "engine/work_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Stands for a lane: owns the pool, and says when it is gone.
class Owner final : public WorkDriver, public std::enable_shared_from_this<Owner> {
 public:
  explicit Owner(bool& gone) : gone_(gone) {}
  ~Owner() override { gone_ = true; }
  std::shared_ptr<WorkDriver> self() override { return shared_from_this(); }
  bool drive(WorkState&, std::optional<std::chrono::milliseconds>) override { return true; }
  std::shared_ptr<MessageWork> get(std::uint64_t sequence) {
    auto work = pool.get(*this, "send");
    work->set_sequence(sequence);
    return work;
  }
  WorkPool<MessageWork> pool;
  WorkPool<CollectiveWork> collectives;

 private:
  bool& gone_;
};

TEST(WorkPool, UsesAStateAgainAsNew) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  auto work = owner->get(7);
  const MessageWork* const first = work.get();
  work->item.source = 3;
  work->item.claimed = true;
  work->item.ended = true;
  work->set_source(3);
  work->end(Failure{.kind = ErrorKind::internal, .text = "trouble"});
  EXPECT_FALSE(work->succeeded());
  work.reset();
  EXPECT_EQ(owner->pool.kept(), 1U);

  work = owner->get(8);
  EXPECT_EQ(work.get(), first);
  EXPECT_EQ(owner->pool.kept(), 0U);
  EXPECT_EQ(work->sequence(), 8U);
  EXPECT_EQ(work->source(), -1);
  EXPECT_FALSE(work->ended());
  EXPECT_FALSE(work->failure().has_value());
  EXPECT_EQ(work->item.source, -1);
  EXPECT_FALSE(work->item.claimed);
  EXPECT_FALSE(work->item.ended);
}

TEST(WorkPool, UsesTheStateOfACollectiveAgainAsNew) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  auto work = owner->collectives.get(*owner, "all_reduce");
  const CollectiveWork* const first = work.get();
  work->item.work = work.get();
  work->item.ended = true;
  work->set_sequence(9);
  work->end(std::nullopt);
  EXPECT_TRUE(work->succeeded());
  work.reset();
  EXPECT_EQ(owner->collectives.kept(), 1U);

  work = owner->collectives.get(*owner, "broadcast");
  EXPECT_EQ(work.get(), first);
  EXPECT_EQ(work->op(), "broadcast");
  EXPECT_EQ(work->sequence(), 0U);
  EXPECT_FALSE(work->ended());
  EXPECT_EQ(work->item.work, nullptr);
  EXPECT_FALSE(work->item.ended);
}

TEST(WorkPool, AStateOfACollectiveKeepsNoLargeCopies) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  for (const std::int64_t side : {32, 512}) {  // copies of 4 KiB and of 1 MiB
    auto work = owner->collectives.get(*owner, "broadcast");
    const Tensor strided = Tensor::zeros({side, side}).transpose(0, 1);
    CollectiveItem& item = work->item;
    item.call.op = Op::broadcast;
    item.call.in.clear();
    item.call.in.push_back({nullptr, static_cast<std::size_t>(side * side)});
    item.staging.prepare({.op = Op::broadcast, .in = {&strided, 1}}, {.rank = 0, .size = 2},
                         item.call);
    const CollectiveItem* const kept = &item;
    EXPECT_GE(kept->staging.capacity(), static_cast<std::size_t>(side * side) * sizeof(float));
    work.reset();
    EXPECT_EQ(kept->staging.capacity() != 0, side == 32) << "kept by the pool, so still there";
  }
}

TEST(WorkPool, AStateLetsGoOfTensorsAndCallbacksAtOnce) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  auto memory = std::make_shared<int>(0);
  auto captured = std::make_shared<int>(0);
  auto work = owner->get(1);
  work->hold({}, std::array{Tensor::from_blob(memory.get(), {1}, DType::i32, {}, memory)});
  work->then([captured] { EXPECT_EQ(*captured, 0); });
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_EQ(captured.use_count(), 2);
  work.reset();
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_EQ(captured.use_count(), 1);
}

TEST(WorkPool, KeepsNoMoreThanItsBound) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  std::vector<std::shared_ptr<MessageWork>> works;
  for (std::uint64_t i = 0; i < WorkPool<MessageWork>::kKept + 50; ++i) {
    works.push_back(owner->get(i));
  }
  works.clear();
  EXPECT_EQ(owner->pool.kept(), WorkPool<MessageWork>::kKept);
}

TEST(WorkPool, AHandleOutlivesTheOwner) {
  bool gone = false;
  auto owner = std::make_shared<Owner>(gone);
  auto work = owner->get(1);
  auto other = owner->get(2);
  owner.reset();
  EXPECT_FALSE(gone);
  EXPECT_EQ(work->sequence(), 1U);
  work.reset();
  EXPECT_FALSE(gone);
  other.reset();
  EXPECT_TRUE(gone);
}

TEST(WorkPool, StatesComeBackFromAnyThread) {
  bool gone = false;
  auto owner = std::make_shared<Owner>(gone);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&pool_owner = *owner] {
      std::shared_ptr<MessageWork> passed_on;
      for (std::uint64_t i = 0; i < 2000; ++i) {
        auto work = pool_owner.get(i);
        work->hold({}, std::array{Tensor::of<int>({1, 2})});
        std::thread dropper;
        if (i % 500 == 0) {
          dropper = std::thread([taken = std::move(passed_on)]() mutable { taken.reset(); });
        }
        passed_on = std::move(work);
        if (dropper.joinable()) {
          dropper.join();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  owner.reset();
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace tutti
