// A call that was made before in the same shape costs no allocation and no page fault: every form
// of the public calls, blocking and waited for, on ranks that are processes and share memory.
// Asynchronous messages are in allocation_test.cpp.
#include "harness/process_ranks.hpp"
#include "memory/count_allocations.hpp"
#include "multi/grid_forms.hpp"

#include <tutti/tutti.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace tutti::testing {
namespace {

using grid::Arguments;
using grid::Form;

constexpr std::array<std::size_t, 5> kSizes{4, std::size_t{4} << 10, std::size_t{64} << 10,
                                            std::size_t{1} << 20, std::size_t{8} << 20};
constexpr std::size_t kLargestAsync = std::size_t{64} << 10;  // larger ones use the same states
constexpr int kRoot = 0;

std::int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

/// The tensors of one call, in memory that has been touched.
class Operands {
 public:
  /// `bytes`: what one rank contributes.
  Operands(const Form& form, Group& group, std::size_t bytes) : arguments_{.group = group} {
    const Spec& row = spec(form.op);
    const auto size = static_cast<std::size_t>(group.size());
    const std::size_t elements = bytes / sizeof(float);
    const std::size_t block =
        row.block_per_rank() ? std::max<std::size_t>(1, elements / size) : elements;
    const auto make = [&](Side side, std::vector<Tensor>& tensors) {
      const auto shares = static_cast<std::size_t>(side.shares(group.rank(), kRoot, group.size()));
      const bool joined = form.single && shares > 0;
      tensors.assign(joined ? 1 : shares, Tensor{});
      for (Tensor& tensor : tensors) {
        tensor = Tensor::full({static_cast<std::int64_t>(joined ? block * shares : block)}, 1);
      }
    };
    // The one row of a message is that of its sender; every rank does both here.
    make(form.op == Op::send ? Side{Part::block} : row.in, inputs_);
    make(form.op == Op::send ? Side{Part::block} : row.out, outputs_);
    const bool in_place = row.in.part == Part::block && row.out.part == Part::block;
    if (in_place && outputs_.empty()) {
      outputs_ = inputs_;
    } else if (in_place && inputs_.empty()) {
      inputs_ = outputs_;
    }
    arguments_.inputs = inputs_;
    arguments_.outputs = outputs_;
    arguments_.input = inputs_.empty() ? Tensor{} : inputs_.front();
    arguments_.output = outputs_.empty() ? Tensor{} : outputs_.front();
    arguments_.root = kRoot;
    arguments_.splits = {
        .output_splits = std::vector<std::int64_t>(size, static_cast<std::int64_t>(block)),
        .input_splits = std::vector<std::int64_t>(size, static_cast<std::int64_t>(block))};
  }
  const Arguments& arguments() const { return arguments_; }

 private:
  std::vector<Tensor> inputs_{};
  std::vector<Tensor> outputs_{};
  Arguments arguments_;
};

enum class Call : std::uint8_t { blocking, async };

/// What calls cost beyond the first ones; empty if nothing.
std::string excess(const Form& form, Call call, Group& group, std::size_t bytes) {
  const Operands operands(form, group, bytes);
  const int calls = bytes < (std::size_t{1} << 20) ? 20 : 4;
  constexpr int kWindows = 5;
  const auto window = [&] {
    for (int i = 0; i < calls; ++i) {
      call == Call::blocking ? form.blocking(operands.arguments())
                             : form.async(operands.arguments());
    }
  };
  for (int i = 0; i < kWindows; ++i) {
    window();
  }
  std::uint64_t allocations = UINT64_MAX;
  std::int64_t faults = INT64_MAX;
  for (int i = 0; i < kWindows; ++i) {
    const std::uint64_t allocated = allocation_count();
    const std::int64_t faulted = page_faults();
    window();
    // The best window counts: what calls cost shows in each. But the system may take a page away,
    // and pools grow when more messages wait at once than ever before, which depends on timing.
    allocations = std::min(allocations, allocation_count() - allocated);
    faults = std::min(faults, page_faults() - faulted);
  }
  if (allocations == 0 && faults == 0) {
    return "";
  }
  return fmt::format("{}{} {} bytes: {} allocations in {} calls, {} page faults in {}\n",
                     call == Call::async ? "async " : "", form.name, bytes, allocations, calls,
                     faults, calls);
}

class SteadyState : public ::testing::TestWithParam<int> {};

TEST_P(SteadyState, CallsCostNoAllocationAndNoPageFault) {
  const auto outcomes = run_process_ranks(
      {.size = GetParam(),
       .init = {.transport = "shm"},
       .limit = std::chrono::minutes(4),  // ranks that only yield are slow beside other load
       // A rank that waits for long looks around, and may allocate then; ranks that yield never do.
       .prepare = [](int) { ::setenv("TUTTI_WAIT", "yield", 1); }},
      [](Context& context, Reporter& reporter) {
        Group world = context.world();
        std::string text;
        for (const Form& form : grid::kForms) {
          for (const std::size_t bytes : kSizes) {
            reporter.note(fmt::format("{} {}", form.name, bytes));
            text += excess(form, Call::blocking, world, bytes);
            barrier(world);
            if (form.op != Op::send && bytes <= kLargestAsync) {
              text += excess(form, Call::async, world, bytes);
              barrier(world);
            }
          }
        }
        return text;
      });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].returned()) << describe(static_cast<int>(rank), outcomes[rank]);
    EXPECT_EQ(outcomes[rank].text, "") << "on rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SteadyState, ::testing::Values(2, 4),
                         [](const auto& param) { return std::to_string(param.param) + "ranks"; });

TEST(CountAllocations, SeesWhatIsAskedFor) {
  const std::uint64_t before = allocation_count();
  std::vector<std::string> some(3, std::string(100, 'x'));
  void* volatile memory = std::malloc(10);  // volatile: or the compiler leaves both out
  void* volatile aligned = std::aligned_alloc(64, 128);
  EXPECT_GE(allocation_count() - before, 6U);
  std::free(aligned);
  std::free(memory);
  const std::uint64_t after = allocation_count();
  some.clear();
  EXPECT_EQ(allocation_count(), after);
}

}  // namespace
}  // namespace tutti::testing
