// Messages allocate nothing once their group has sent some: operator new is counted for each
// thread, and both ranks are threads. Not counted: what the background thread does on its own
// account when it looks around.
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t allocations = 0;
}

// Replaced for the whole program; the other forms come down to these. Not inlined, or the compiler
// would see a new end in malloc and its delete in free, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

/// Allocations of this rank in `rounds` calls of `call`, after some that are not counted.
template <typename Call>
std::size_t allocations_in(Group& group, int rounds, Call call) {
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  barrier(group);
  const std::size_t before = allocations;
  barrier(group);
  for (int i = 0; i < rounds; ++i) {
    call();
  }
  barrier(group);
  const std::size_t after = allocations;
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
