// Message plans of all ranks, run in one thread over simulated links, with tensors on both sides of
// the window: every run ends (nobody waits for a place that nobody frees), the sum is right, and
// all ranks hold the same bits.
#include "engine/message_run.hpp"

#include "base/rng.hpp"
#include "plan/algorithms.hpp"
#include "transport/sim_world.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kWindowElements = kWindowBytes / sizeof(float);
constexpr std::size_t kMessageElements = kMessageBytes / sizeof(float);

struct Case {
  std::string algorithm;
  int ranks = 2;
  std::size_t share = 0;  ///< elements of a rank's share, about
  bool in_place = true;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.algorithm << " of " << c.ranks << " ranks, " << c.share << " elements each, "
               << (c.in_place ? "in place" : "out of place");
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* algorithm : {"ring", "halving_doubling", "recursive_doubling", "pairwise"}) {
    for (const int ranks : {2, 3, 5}) {
      for (const std::size_t share : {std::size_t{1}, kMessageElements + 1, kWindowElements,
                                      kWindowElements + 3 * kMessageElements + 1}) {
        all.push_back({algorithm, ranks, share, (all.size() + all.size() / 4) % 2 == 0});
      }
    }
  }
  return all;
}

/// One rank's tensors and its run.
struct Rank {
  Rank(const Case& c, int rank, std::size_t elements, std::uint64_t seed)
      : in(elements), out(elements), seat{.rank = rank, .size = c.ranks} {
    Rng rng(seed + static_cast<std::uint64_t>(rank));
    for (float& value : in) {
      // Sums round, so that another order of operands would show in the bits.
      value = static_cast<float>(rng.next() % 1000003) / 7.0F;
    }
    plan = find_algorithm(Op::all_reduce, c.algorithm)->plan(seat, 0);
    members.resize(static_cast<std::size_t>(c.ranks));
    std::iota(members.begin(), members.end(), 0);
    std::vector<float>& result = c.in_place ? in : out;
    call.op = Op::all_reduce;
    call.in.push_back({reinterpret_cast<std::byte*>(in.data()), elements});
    call.out.push_back({reinterpret_cast<std::byte*>(result.data()), elements});
    call.fingerprint = 4711;
  }
  const std::vector<float>& result(const Case& c) const { return c.in_place ? in : out; }

  std::vector<float> in;
  std::vector<float> out;
  Seat seat;
  Plan plan{};
  std::vector<int> members{};
  Call call{};
  MessageRun run{};
  bool ended = false;
};

class MessageRunAllReduce : public testing::TestWithParam<Case> {};

TEST_P(MessageRunAllReduce, EndsWithTheSameSumOnAllRanks) {
  const Case& c = GetParam();
  const std::size_t elements = c.share * static_cast<std::size_t>(c.ranks) - (c.share > 1 ? 1 : 0);
  SimWorld world(c.ranks, {.bytes_per_second = 1e9, .short_percent = 10, .stall_percent = 5});
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<double> sum(elements, 0.0);
  for (int rank = 0; rank < c.ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(c, rank, elements, 99));
    for (std::size_t i = 0; i < elements; ++i) {
      sum[i] += ranks.back()->in[i];
    }
  }
  for (const auto& rank : ranks) {
    rank->run.start(world[rank->seat.rank], rank->plan, rank->call, rank->seat, rank->members,
                    {.group = 1, .tag = 1});
  }
  const bool ended = world.run_until([&] {
    bool all = true;
    for (const auto& rank : ranks) {
      rank->ended = rank->ended || rank->run.advance();
      all = all && rank->ended;
    }
    return all;
  });
  ASSERT_TRUE(ended) << "nothing moves any more, and not all ranks have ended";
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->run.failure().kind, RunFailure::Kind::none);
    EXPECT_EQ(rank->run.bytes_done(), rank->run.bytes_total());
    EXPECT_EQ(
        std::memcmp(rank->result(c).data(), ranks[0]->result(c).data(), elements * sizeof(float)),
        0)
        << "rank " << rank->seat.rank << " has other bits than rank 0";
  }
  for (std::size_t i = 0; i < elements; ++i) {
    ASSERT_NEAR(ranks[0]->result(c)[i], sum[i], 0.25) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Window, MessageRunAllReduce, testing::ValuesIn(cases()));

}  // namespace
}  // namespace tutti
