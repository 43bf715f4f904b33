// Many operations at once: the caller's thread, waiting threads and the background thread all move
// them on, and whoever is first must not be taken in by what the others have only begun.
#include "harness/thread_ranks.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

class InFlight : public ::testing::TestWithParam<std::string> {
 protected:
  static InitOptions options() {
    InitOptions init;
    init.transport = GetParam();
    return init;
  }
};

Tensor number(std::int64_t value) {
  return Tensor::full({1}, static_cast<double>(value), DType::i64);
}

TEST_P(InFlight, WindowsOfMessagesArriveInOrder) {
  constexpr int kWindows = 300;
  constexpr int kWindow = 16;
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        Group group = context.world();
        const int peer = 1 - group.rank();
        for (int w = 0; w < kWindows; ++w) {
          std::vector<Tensor> received;
          std::vector<Work> works;
          for (int i = 0; i < kWindow; ++i) {
            works.push_back(isend(group, number(w * kWindow + i), peer));
            received.push_back(number(-1));
            works.push_back(irecv(group, received.back(), peer));
          }
          for (const Work& work : works) {
            work.wait();
          }
          for (int i = 0; i < kWindow; ++i) {
            ASSERT_EQ(received[static_cast<std::size_t>(i)].item(), w * kWindow + i);
          }
        }
      },
      options());
}

TEST_P(InFlight, MessagesAndCollectivesOfSeveralThreadsGoBesideEachOther) {
  constexpr int kRounds = 200;
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        Group messages = context.new_group();
        Group sums = context.new_group();
        const int peer = 1 - messages.rank();
        std::thread other([&] {
          for (int i = 0; i < kRounds; ++i) {
            const Tensor tensor = number(i);
            const Work work = async::all_reduce(sums, tensor);
            if (i % 3 == 0) {
              all_reduce(sums, number(1));  // queues behind
            }
            work.wait();
            ASSERT_EQ(tensor.item(), 2 * i);
          }
        });
        for (int i = 0; i < kRounds; ++i) {
          const Work sent = isend(messages, number(i), peer);
          const Tensor got = number(-1);
          recv(messages, got, peer);
          sent.wait();
          ASSERT_EQ(got.item(), i);
        }
        other.join();
      },
      options());
}

/// A blocking receive that finds its message at the door takes it without being posted; it must
/// not pass others by, whatever lies or waits around it.
TEST_P(InFlight, BlockingReceivesKeepTheOrderAmongAllOthers) {
  constexpr int kRounds = 100;
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        Group group = context.world();
        const int peer = 1 - group.rank();
        const std::vector<std::int64_t> sizes{1, 100, 5000, 40000, 1};
        for (int round = 0; round < kRounds; ++round) {
          std::vector<Work> sent;
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            sent.push_back(isend(group, Tensor::full({sizes[i]}, static_cast<double>(i)), peer,
                                 {.tag = static_cast<int>(i % 2)}));
          }
          const auto in = [&](std::size_t i) { return Tensor::full({sizes[i]}, -1); };
          const std::vector<Tensor> got{in(0), in(1), in(2), in(3), in(4)};
          if (round % 2 == 0) {  // odd tags first: the even ones are unexpected
            recv(group, got[1], peer, {.tag = 1});
            recv(group, got[3], peer, {.tag = 1});
          }
          const Work first = irecv(group, got[0], round % 3 == 0 ? kAnySource : peer);
          recv(group, got[2], peer);
          recv(group, got[4], round % 4 == 0 ? kAnySource : peer);
          if (round % 2 != 0) {
            const Work before = irecv(group, got[1], peer, {.tag = 1});
            recv(group, got[3], peer, {.tag = 1});
            before.wait();
          }
          first.wait();
          wait_all(sent);
          for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(got[i].to_vector(), std::vector<double>(static_cast<std::size_t>(sizes[i]),
                                                              static_cast<double>(i)));
          }
        }
      },
      options());
}

TEST_P(InFlight, AHandleOutlivesItsGroup) {
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        std::vector<Work> works;
        {
          Group group = context.new_group();
          const int peer = 1 - group.rank();
          for (int i = 0; i < 300; ++i) {
            works.push_back(isend(group, number(i), peer));
            works.push_back(irecv(group, number(-1), peer));
          }
          wait_all(works);
          context.destroy_group(group);
        }
        for (std::size_t i = 0; i < works.size(); ++i) {
          ASSERT_TRUE(works[i].is_success());
          ASSERT_EQ(works[i].result().at(0).item(), static_cast<double>(i / 2));
          ASSERT_EQ(works[i].op_name(), i % 2 == 0 ? "send" : "recv");
        }
      },
      options());
}

TEST_P(InFlight, AWorkThatWasWaitedForIsComplete) {
  constexpr int kRounds = 2000;
  testing::run_thread_ranks(
      2,
      [](Context& context) {
        Group group = context.world();
        const int peer = 1 - group.rank();
        const Tensor tensor = number(7);
        for (int i = 0; i < kRounds; ++i) {
          const Work sent = isend(group, tensor, peer);
          const Tensor got = number(0);
          const Work received = irecv(group, got, kAnySource);
          received.wait();
          ASSERT_TRUE(received.is_completed());
          ASSERT_EQ(received.source_rank(), peer);
          sent.wait();
          ASSERT_TRUE(sent.is_success());
        }
      },
      options());
}

TEST_P(InFlight, CallbacksMayUseTheGroupAndWhatTheyThrowGoesNoFurther) {
  testing::run_thread_ranks(
      3,
      [](Context& context) {
        Group group = context.world();
        const Tensor first = number(1);
        const Tensor second = number(1);
        std::promise<Work> chained;
        const Work work = async::all_reduce(group, first);
        work.then([&](const Work&) {
          chained.set_value(async::all_reduce(group, second));
          throw std::runtime_error("a test's callback");
        });
        work.wait();
        chained.get_future().get().wait();
        work.then([](const Work&) { throw 1; });  // at once: it has ended
        EXPECT_EQ(first.item(), 3);
        EXPECT_EQ(second.item(), 3);
        barrier(group);
      },
      options());
}

TEST_P(InFlight, TheSameCallOverAndOverMayChangeItsTensorInBetween) {
  testing::run_thread_ranks(
      3,
      [](Context& context) {
        Group group = context.world();
        for (int i = 0; i < 50; ++i) {
          const Tensor tensor = Tensor::full({i % 7 + 1}, i, i % 2 == 0 ? DType::f32 : DType::i32);
          for (int k = 0; k < 3; ++k) {
            all_reduce(group, tensor, {.op = ReduceOp::max});
            broadcast(group, tensor, i % 3);
            broadcast(group, tensor, i % 3);
          }
          ASSERT_EQ(tensor.to_vector(),
                    std::vector<double>(static_cast<std::size_t>(i % 7 + 1), i));
          if (i % 10 == 0) {
            async::all_reduce(group, tensor).wait();
          }
        }
        // A call like the last one but for what it may not be.
        const Tensor wide = Tensor::zeros({4, 4});
        all_reduce(group, wide);
        const Tensor column = wide.select(1, 2);
        all_reduce(group, column);
        all_reduce(group, column);
        EXPECT_THROW(all_reduce(group, wide, {.op = ReduceOp::band}), InvalidArgument);
        EXPECT_THROW(all_reduce(group, wide, {.timeout = std::chrono::milliseconds(0)}),
                     InvalidArgument);
        all_reduce(group, wide);
      },
      options());
}

INSTANTIATE_TEST_SUITE_P(Transports, InFlight, ::testing::Values("shm", "tcp"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tutti
