// Every rank chooses alike, whatever differs between their processes, and a tuning table changes
// what is chosen; ranks with different tables do not start.
#include "engine/lane.hpp"
#include "group/group_state.hpp"
#include "harness/process_ranks.hpp"
#include "plan/select.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace tutti {
namespace {

using ::testing::HasSubstr;
using testing::ProcessRanks;
using testing::ProcessRanksOptions;
using testing::RankOutcome;
using testing::Reporter;

/// A file that holds `rows` for as long as the test runs.
class TableFile {
 public:
  explicit TableFile(const std::string& rows) {
    static int count = 0;
    path_ = fmt::format("{}/tutti-tuning-{}-{}", ::testing::TempDir(), ::getpid(), ++count);
    std::ofstream(path_) << "tutti-tuning 1\n" << rows;
  }
  ~TableFile() { ::unlink(path_.c_str()); }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What the world group's lane runs for every collective over many sizes, a word each.
std::string choices(const Context& context) {
  constexpr std::size_t kLargest = std::size_t{1} << 26;
  const Lane& lane = context.world().state().lane();
  std::string words;
  for (const Spec& row : kSpecs) {
    for (std::size_t elements = 1; elements <= kLargest && !row.point_to_point(); elements *= 2) {
      Call call{.op = row.op};
      if (row.op != Op::barrier) {
        call.in.push_back({.data = nullptr, .elements = elements + 1});
      }
      const Selection chosen = lane.choose(call);
      words += fmt::format("{}:{}:{}:{}:{} ", row.name, name(chosen), chosen.segment_bytes,
                           chosen.lookahead, chosen.ring_bytes);
    }
  }
  return words;
}

/// Sums of several sizes; throws where one is wrong.
void run_some(Context& context, int value = 1) {
  Group world = context.world();
  for (const std::int64_t elements : {1, 1000, 30000, 300000}) {
    const Tensor tensor = Tensor::full({elements}, static_cast<double>(value), DType::f32);
    all_reduce(world, tensor);
    if (tensor.data_as<float>()[elements - 1] != static_cast<float>(world.size() * value)) {
      throw Internal(fmt::format("wrong sum of {} elements", elements));
    }
  }
}

std::vector<std::string> texts_of(const std::vector<RankOutcome>& outcomes) {
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].returned())
        << testing::describe(static_cast<int>(rank), outcomes[rank]) << outcomes[rank].text;
    texts.push_back(outcomes[rank].text);
  }
  return texts;
}

std::string choose_and_run(Context& context, Reporter&) {
  run_some(context);
  return choices(context);
}

void narrow_to_one_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0, kept = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set) && kept++ > 0) {
      CPU_CLR(cpu, &set);
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

TEST(TuningChoice, RanksWithUnequalAffinityMasksChooseAlike) {
  for (const int size : {2, 3, 4}) {
    ProcessRanksOptions options{.size = size};
    options.prepare = [](int rank) {
      if (rank % 2 == 1) {
        narrow_to_one_cpu();
      }
    };
    const auto texts = texts_of(testing::run_process_ranks(options, choose_and_run));
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 1U) << size << " ranks";
  }
}

TEST(TuningChoice, ATableChangesTheAlgorithmOnAllRanks) {
  const TableFile table(
      "all_reduce any any any 1M ring\n"
      "all_reduce any any shm any direct_staged,segment=64K,ahead=1,ring=512K\n");
  ProcessRanksOptions options{.size = 2};
  options.prepare = [&](int) { ::setenv("TUTTI_TUNING", table.path().c_str(), 1); };
  for (const std::string& text : texts_of(testing::run_process_ranks(options, choose_and_run))) {
    EXPECT_THAT(text, HasSubstr("all_reduce:ring:0:0:0 "));
    EXPECT_THAT(text, HasSubstr("all_reduce:direct_staged:65536:1:524288 "));
    EXPECT_THAT(text, HasSubstr("broadcast:direct_inlined:"));
  }
}

TEST(TuningChoice, EqualRowsInDifferentFilesAreOneTable) {
  const TableFile one("all_reduce any any any any ring\n");
  const TableFile other("# the same\nall_reduce   any any any any   ring\n\n");
  ProcessRanksOptions options{.size = 2};
  options.prepare = [&](int rank) {
    ::setenv("TUTTI_TUNING", (rank == 0 ? one : other).path().c_str(), 1);
  };
  const auto texts = texts_of(testing::run_process_ranks(options, choose_and_run));
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(TuningChoice, RanksWithDifferentTablesDoNotStart) {
  const TableFile table("all_reduce any any any any ring\n");
  ProcessRanksOptions options{.size = 3};
  options.prepare = [&](int rank) {
    if (rank == 1) {
      ::setenv("TUTTI_TUNING", table.path().c_str(), 1);
    }
  };
  const auto outcomes = testing::run_process_ranks(options, choose_and_run);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].how, RankOutcome::How::threw) << rank;
    EXPECT_EQ(outcomes[rank].kind, ErrorKind::mismatch) << outcomes[rank].text;
    EXPECT_THAT(outcomes[rank].text, HasSubstr(table.path()));
    EXPECT_THAT(outcomes[rank].text, HasSubstr("built-in"));
    EXPECT_THAT(outcomes[rank].text, HasSubstr(fmt::format("rank {} of 3", rank)));
    EXPECT_THAT(outcomes[rank].text, HasSubstr(rank == 1 ? "rank 0 has" : "rank 1 has"));
  }
}

TEST(TuningChoice, AFaultyTableOnOneRankIsToldToAll) {
  const TableFile table("all_reduce any any any 4Q ring\n");
  ProcessRanksOptions options{.size = 2};
  options.prepare = [&](int rank) {
    if (rank == 1) {
      ::setenv("TUTTI_TUNING", table.path().c_str(), 1);
    }
  };
  const auto outcomes = testing::run_process_ranks(options, choose_and_run);
  EXPECT_EQ(outcomes[1].kind, ErrorKind::invalid_argument) << outcomes[1].text;
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_THAT(outcome.text, HasSubstr("line 2: up_to is '4Q'"));
  }
}

TEST(TuningChoice, RingsOfDifferentLengthFollowEachOther) {
  ProcessRanksOptions options{.size = 2};
  const auto body = [](Context& context, Reporter&) {
    // Slots of one size, but not as many of them: a slot is where it was.
    for (int i = 0; i < 50; ++i) {
      run_some(context, i);
    }
    return std::string();
  };
  const TableFile table(
      "any any any shm 200K direct_staged,segment=64K,ahead=0,ring=256K\n"
      "any any any shm any direct_staged,segment=64K,ahead=0,ring=512K\n");
  options.prepare = [&](int) { ::setenv("TUTTI_TUNING", table.path().c_str(), 1); };
  texts_of(testing::run_process_ranks(options, body));
}

}  // namespace
}  // namespace tutti
