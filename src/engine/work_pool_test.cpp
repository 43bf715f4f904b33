#include "engine/work_pool.hpp"

#include <gtest/gtest.h>

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
    return pool.get(*this, "send", sequence);
  }
  WorkPool pool;

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

TEST(WorkPool, AStateLetsGoOfTensorsAndCallbacksAtOnce) {
  bool gone = false;
  const auto owner = std::make_shared<Owner>(gone);
  auto memory = std::make_shared<int>(0);
  auto captured = std::make_shared<int>(0);
  auto work = owner->get(1);
  work->hold_output(Tensor::from_blob(memory.get(), {1}, DType::i32, {}, memory));
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
  for (std::uint64_t i = 0; i < WorkPool::kKept + 50; ++i) {
    works.push_back(owner->get(i));
  }
  works.clear();
  EXPECT_EQ(owner->pool.kept(), WorkPool::kKept);
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
        work->hold_output(Tensor::of<int>({1, 2}));
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
