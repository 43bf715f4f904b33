// Messages allocate nothing once their group has sent some. Both ranks are threads, each counted
// for itself. Not counted: what the background thread does on its own
// account when it looks around.
#include "harness/thread_ranks.hpp"
#include "memory/count_allocations.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {
namespace {

/// Allocations of this rank in `rounds` calls of `call`, after some that are not counted.
template <typename Call>
std::uint64_t allocations_in(Group& group, int rounds, Call call) {
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  barrier(group);
  const std::uint64_t before = testing::thread_allocation_count();
  barrier(group);
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  barrier(group);
  const std::uint64_t after = testing::thread_allocation_count();
  barrier(group);
  return after - before;
}

TEST(Allocation, MessagesMakeNone) {
  testing::run_thread_ranks(2, [](Context& context) {
    Group group = context.world();
    const int peer = 1 - group.rank();
    for (const std::int64_t elements : {1, 1000, 100000}) {
      const Tensor out = Tensor::zeros({elements});
      const Tensor in = Tensor::zeros({elements});
      EXPECT_EQ(allocations_in(group, 50,
                               [&] {
                                 if (group.rank() == 0) {
                                   send(group, out, peer);
                                   recv(group, in, peer);
                                 } else {
                                   recv(group, in, peer);
                                   send(group, out, peer);
                                 }
                               }),
                0U)
          << elements;
      EXPECT_EQ(allocations_in(group, 50,
                               [&] {
                                 std::array<Work, 8> works;
                                 for (std::size_t i = 0; i < works.size(); i += 2) {
                                   works[i] = irecv(group, in, peer);
                                   works[i + 1] = isend(group, out, peer);
                                 }
                                 for (const Work& work : works) {
                                   work.wait();
                                 }
                               }),
                0U)
          << elements;
    }
  });
}

}  // namespace
}  // namespace tutti
