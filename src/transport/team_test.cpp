// Team::spread: who leaves a crowded CPU, and that nothing but the place of the thread changes.
#include "transport/team.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <thread>
#include <vector>

namespace tutti {
namespace {

class SpreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed_, &allowed_), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed_)) {
        cpus_.push_back(cpu);
      }
    }
    if (cpus_.size() < 2) {
      GTEST_SKIP() << "needs two CPUs";
    }
    for (int seat = 0; seat < kSeats; ++seat) {
      areas_.push_back(std::make_unique<TeamArea>());
    }
  }

  /// Runs `seat`, the others being where `others` says, on the first CPU; returns whether it moved.
  bool moves(int seat, std::vector<int> others) {
    bool moved = false;
    std::thread([&] {
      cpu_set_t first;
      CPU_ZERO(&first);
      CPU_SET(cpus_[0], &first);
      ASSERT_EQ(::sched_setaffinity(0, sizeof first, &first), 0);
      ASSERT_EQ(::sched_setaffinity(0, sizeof allowed_, &allowed_), 0);
      std::vector<Team::Member> members;
      for (int k = 0; k < kSeats; ++k) {
        areas_[static_cast<std::size_t>(k)]->cpu = others[static_cast<std::size_t>(k)];
        members.push_back({.world_rank = k, .area = areas_[static_cast<std::size_t>(k)].get()});
      }
      Team team(
          {.rank = seat, .size = kSeats}, members, PublishMode::exchange, [](void*, int) {},
          nullptr);
      team.note_cpu();
      const int before = areas_[static_cast<std::size_t>(seat)]->cpu;
      if (before != cpus_[0]) {
        return;  // the scheduler was quicker; the next attempt may find it where it was put
      }
      team.spread();
      moved = areas_[static_cast<std::size_t>(seat)]->cpu != before;
      cpu_set_t after;
      ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
      EXPECT_TRUE(CPU_EQUAL(&after, &allowed_)) << "the affinity of the thread is the user's";
    }).join();
    return moved;
  }

  static constexpr int kSeats = 4;
  cpu_set_t allowed_{};
  std::vector<int> cpus_{};
  std::vector<std::unique_ptr<TeamArea>> areas_{};
};

TEST_F(SpreadTest, TheHighestSeatOfACrowdedCpuLeavesIt) {
  const int here = cpus_[0];
  bool moved = false;
  for (int attempt = 0; attempt < 100 && !moved; ++attempt) {
    moved = moves(3, {here, here, here, here});
  }
  EXPECT_TRUE(moved);
}

TEST_F(SpreadTest, OthersStay) {
  const int here = cpus_[0];
  const int there = cpus_[1];
  for (int attempt = 0; attempt < 10; ++attempt) {
    EXPECT_FALSE(moves(2, {here, here, here, here})) << "it is the turn of seat 3";
    EXPECT_FALSE(moves(3, {here, there, there, here})) << "nothing to win";
    EXPECT_FALSE(moves(3, {here, here, -1, here})) << "not everybody is known";
  }
}

}  // namespace
}  // namespace tutti
