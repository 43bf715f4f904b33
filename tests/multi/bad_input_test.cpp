// Bad input is refused before a byte moves, with a text that says what was wrong, and loses
// nothing: the group goes on as if the call had not been made.
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tutti {
namespace {

struct BadCall {
  std::string name;
  std::function<void(Group&)> call;
  std::vector<std::string> words;
};

Tensor f32(Shape shape) { return Tensor::zeros(std::move(shape)); }

/// What every rank of a group of two does wrong.
std::vector<BadCall> bad_calls() {
  const auto unknown = static_cast<ReduceOp>(99);
  return {
      {"root", [](Group& g) { broadcast(g, f32({2}), 2); }, {"root 2", "0 to 1"}},
      {"negative root", [](Group& g) { reduce(g, f32({2}), -1); }, {"root -1"}},
      {"undefined", [](Group& g) { all_reduce(g, Tensor()); }, {"undefined"}},
      {"unknown reduce", [=](Group& g) { all_reduce(g, f32({2}), {.op = unknown}); }, {"99"}},
      {"band of floats",
       [](Group& g) { all_reduce(g, f32({2}), {.op = ReduceOp::band}); },
       {"band", "float32"}},
      {"complex factor",
       [](Group& g) {
         all_reduce(g, f32({2}), {.op = ReduceOp::premul_sum, .factor = {1.0, 2.0}});
       },
       {"factor", "complex", "float32"}},
      {"expanded output", [](Group& g) { all_reduce(g, f32({1}).expand({4})); }, {"overlaps"}},
      {"count", [](Group& g) { all_gather_into_tensor(g, f32({3}), f32({2})); }, {"3", "2"}},
      {"transposed result",
       [](Group& g) {
         all_gather_into_tensor(g, f32({4, 2}), f32({4}));
       },
       {"float32[4, 2]", "float32[4]"}},
      {"other rows",
       [](Group& g) {
         reduce_scatter_tensor(g, f32({2, 3}), f32({6, 2}));
       },
       {"float32[6, 2]", "float32[2, 3]"}},
      {"other dtype",
       [](Group& g) { all_gather_into_tensor(g, f32({4}), Tensor::zeros({2}, DType::f64)); },
       {"float32", "float64"}},
      {"exchange in place",
       [](Group& g) {
         const Tensor both = f32({4});
         all_to_all_single(g, both, both);
       },
       {"share memory"}},
      {"half overlapping",
       [](Group& g) {
         const Tensor all = f32({6});
         all_gather_into_tensor(g, all.slice(0, 0, 4), all.slice(0, 3, 5));
       },
       {"share memory"}},
      {"splits",
       [](Group& g) {
         all_to_all_single(g, f32({4}), f32({4}),
                           {.output_splits = {1, 2}, .input_splits = {2, 2}});
       },
       {"sum to 3", "4"}},
      {"negative split",
       [](Group& g) {
         all_to_all_single(g, f32({4}), f32({4}),
                           {.output_splits = {5, -1}, .input_splits = {2, 2}});
       },
       {"negative"}},
      {"to itself", [](Group& g) { send(g, f32({1}), g.rank()); }, {"this rank"}},
      {"peer", [](Group& g) { static_cast<void>(irecv(g, f32({1}), 7)); }, {"peer 7"}},
      {"tag", [](Group& g) { send(g, f32({1}), 1 - g.rank(), {.tag = -3}); }, {"tag -3"}},
      {"timeout",
       [](Group& g) { all_reduce(g, f32({1}), {.timeout = std::chrono::milliseconds(0)}); },
       {"timeout", "0 ms"}},
      {"empty batch", [](Group& g) { static_cast<void>(batch_isend_irecv(g, {})); }, {"batch"}},
      {"empty callback",
       [](Group& g) {
         const Work work = async::all_reduce(g, f32({1}));
         work.wait();
         work.then({});
       },
       {"empty function"}},
  };
}

TEST(BadInput, IsRefusedWithItsValuesAndLosesNothing) {
  for (const BadCall& bad : bad_calls()) {
    testing::run_thread_ranks(2, [&](Context& context) {
      Group group = context.world();
      std::string text;
      try {
        bad.call(group);
      } catch (const InvalidArgument& error) {
        text = error.what();
      }
      ASSERT_NE(text, "") << bad.name << " was accepted";
      for (const std::string& word : bad.words) {
        EXPECT_NE(text.find(word), std::string::npos) << bad.name << ": " << text;
      }
      const Tensor tensor = Tensor::full({3}, group.rank() + 1);
      all_reduce(group, tensor);
      EXPECT_EQ(tensor.to_vector(), std::vector<double>(3, 3.0)) << bad.name;
    });
  }
}

TEST(BadInput, AnEmptyGroupIsRefusedEverywhere) {
  Group none;
  const Tensor tensor = f32({2});
  EXPECT_THROW(none.rank(), InvalidArgument);
  EXPECT_THROW(all_reduce(none, tensor), InvalidArgument);
  EXPECT_THROW(barrier(none), InvalidArgument);
  EXPECT_THROW(send(none, tensor, 0), InvalidArgument);
  EXPECT_THROW(static_cast<void>(isend(none, tensor, 0)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(async::all_reduce(none, tensor)), InvalidArgument);
  EXPECT_THROW(monitored_barrier(none), InvalidArgument);
  EXPECT_THROW(none.split(0, 0), InvalidArgument);
  EXPECT_THROW(none.abort(), InvalidArgument);
}

TEST(BadInput, AGroupIsDestroyedOnceAndTheWorldWithItsContext) {
  testing::run_thread_ranks(2, [](Context& context) {
    Group group = context.new_group();
    context.destroy_group(group);
    EXPECT_THROW(context.destroy_group(group), InvalidArgument);
    EXPECT_THROW(all_reduce(group, f32({2})), InvalidArgument);
    Group world = context.world();
    EXPECT_THROW(context.destroy_group(world), InvalidArgument);
    Group none;
    EXPECT_THROW(context.destroy_group(none), InvalidArgument);
    barrier(world);
  });
}

TEST(BadInput, DestroyingTheDefaultGroupEndsTheDefaultContext) {
  for (int turn = 0; turn < 2; ++turn) {
    init_process_group({.store = make_hash_store(), .rank = 0, .world_size = 1});
    Group world = default_group();
    destroy_process_group(world);
    EXPECT_FALSE(is_initialized());
    EXPECT_THROW(destroy_process_group(), InvalidArgument);
    EXPECT_THROW(all_reduce(world, f32({2})), InvalidArgument);
  }
}

}  // namespace
}  // namespace tutti
