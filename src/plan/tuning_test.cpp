#include "plan/tuning.hpp"

#include "plan/select.hpp"

#include <tutti/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 30;

TuningTable table_of(const std::string& rows) {
  return TuningTable::parse("tutti-tuning 1\n" + rows, "t");
}

std::string chosen(const SelectionFacts& facts, const TuningTable& table) {
  const Selection selection = select(facts, table);
  std::string text(name(selection));
  if (selection.kind == Selection::Kind::direct && selection.protocol == Protocol::staged) {
    text += " " + std::to_string(selection.segment_bytes) + " " +
            std::to_string(selection.lookahead) + " " + std::to_string(selection.ring_bytes);
  }
  return text;
}

// What the rows stand for, written as a program.
std::string expected(const SelectionFacts& facts) {
  const bool crowded = facts.ranks_per_cpu > 1;
  const std::size_t bytes = contribution(facts);
  if (facts.op == Op::all_reduce && crowded && facts.ranks > 2 && bytes <= 32768) {
    return "direct_arrival";
  }
  if (facts.op == Op::barrier || bytes <= (crowded ? 32768U : 4096U)) {
    return "direct_inlined";
  }
  return crowded ? "direct_staged 131072 1 1048576" : "direct_staged 262144 0 1048576";
}

TEST(TuningTable, BuiltInRowsCoverEveryCallOnOneHost) {
  for (const Spec& row : kSpecs) {
    for (const int ranks : {1, 2, 3, 8, 64}) {
      for (const int per_cpu : {1, 2, 32}) {
        for (std::size_t bytes = 0; bytes <= kLargest && !row.point_to_point();
             bytes = bytes * 3 / 2 + 1) {
          const SelectionFacts facts{.op = row.op,
                                     .block_bytes = row.op == Op::barrier ? 0 : bytes,
                                     .ranks = ranks,
                                     .ranks_per_cpu = per_cpu};
          ASSERT_EQ(chosen(facts, {}), expected(facts)) << row.name << " " << ranks << " " << bytes;
        }
      }
    }
  }
}

TEST(TuningTable, SizesChangeAtTheByteThatTheRowSays) {
  for (const auto& [bytes, algorithm] :
       {std::pair(4096, "direct_inlined"), std::pair(4097, "direct_staged 262144 0 1048576")}) {
    EXPECT_EQ(chosen({.op = Op::broadcast, .block_bytes = static_cast<std::size_t>(bytes)}, {}),
              algorithm);
  }
}

TEST(TuningTable, RowsOfAFileComeFirstAndOnlyWhereTheyFit) {
  const TuningTable table = table_of(
      "all_reduce 2 1 shm 1M direct_staged,segment=64K,ahead=1   # two ranks\n"
      "all_reduce any any shm any ring\n"
      "any 3+ any tcp 64K pairwise\n"
      "any 5 any any any direct_staged\n"  // barrier has no such plan: passed over
      "broadcast any any any any two_level\n");
  const auto at = [&](SelectionFacts facts) { return chosen(facts, table); };
  EXPECT_EQ(at({.op = Op::all_reduce, .block_bytes = 64, .ranks = 2}),
            "direct_staged 65536 1 1048576");
  EXPECT_EQ(at({.op = Op::all_reduce, .block_bytes = 2 << 20, .ranks = 2}), "ring");
  EXPECT_EQ(at({.op = Op::all_reduce, .block_bytes = 64, .ranks = 3}), "ring");
  EXPECT_EQ(at({.op = Op::barrier, .ranks = 5}), "direct_inlined");
  EXPECT_EQ(at({.op = Op::broadcast, .block_bytes = 64, .ranks = 4}), "direct_inlined");
  EXPECT_EQ(at({.op = Op::all_gather, .block_bytes = 64, .ranks = 4, .one_host = false}),
            "pairwise");
  EXPECT_EQ(at({.op = Op::all_gather, .block_bytes = 64, .ranks = 2, .one_host = false}), "bruck");
  EXPECT_EQ(at({.op = Op::broadcast,
                .block_bytes = 64,
                .ranks = 2,
                .one_host = false,
                .two_level = true}),
            "two_level");
}

TEST(TuningTable, SizesThatOnlyPairsKnowChooseNothing) {
  const TuningTable table = table_of("all_to_all any any any 64 linear\n");
  EXPECT_EQ(chosen({.op = Op::all_to_all, .block_bytes = 4, .ranks = 2}, table), "linear");
  EXPECT_EQ(
      chosen({.op = Op::all_to_all, .block_bytes = 4, .ranks = 2, .pairwise_counts = true}, table),
      "pairwise");
}

TEST(TuningTable, DeterministicCallsTakeNoRowThatSumsInPassing) {
  const TuningTable table = table_of("all_reduce any any any any ring\n");
  EXPECT_EQ(
      chosen({.op = Op::all_reduce, .block_bytes = 64, .ranks = 4, .deterministic = true}, table),
      "direct_inlined");
}

TEST(TuningTable, AForcedChoiceWinsWithItsSettings) {
  const TuningTable table =
      table_of("all_reduce any 1 shm 4K direct_staged,segment=16K,ring=256K\n");
  SelectionFacts facts{.op = Op::all_reduce, .block_bytes = 1 << 20, .ranks = 2};
  facts.forced = "direct_staged";
  EXPECT_EQ(chosen(facts, table), "direct_staged 16384 0 262144");  // rest: as the table has it
  facts.forced = "direct_staged,segment=64K,ahead=2";
  EXPECT_EQ(chosen(facts, table), "direct_staged 65536 2 262144");
  facts.forced = "ring";
  EXPECT_EQ(chosen(facts, table), "ring");
}

TEST(TuningTable, IsWrittenAsItIsRead) {
  const TuningTable table = table_of(
      "all_reduce 2 1 shm 96K direct_staged,segment=64K,ahead=1,ring=512K\n"
      "any 3-8 2+ shm 1000 direct_inlined\n"
      "reduce any any any any pairwise\n");
  const TuningTable again = TuningTable::parse(table.text(), "again");
  EXPECT_TRUE(std::equal(table.rows().begin(), table.rows().end(), again.rows().begin(),
                         again.rows().end()));
  EXPECT_EQ(again.digest(), table.digest());
  EXPECT_EQ(table_of("# nothing\n").digest(), TuningTable().digest());
  EXPECT_NE(table.digest(), TuningTable().digest());
  EXPECT_EQ(identity_of({}), TuningTable().digest() + " built-in");
}

TEST(TuningTable, BuiltInRowsCanBeWrittenToAFile) {
  const auto rows = TuningTable::built_in();
  const TuningTable table({rows.begin(), rows.end()}, "t");
  EXPECT_TRUE(
      std::equal(rows.begin(), rows.end(), TuningTable::parse(table.text(), "t").rows().begin()));
}

TEST(TuningTable, RefusesWhatItCannotReadNamingTheLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"any any any shm", "line 2: 4 columns; expected 6"},
      {"allreduce any any shm any ring",
       "operation is 'allreduce'; expected one of any, all_reduce"},
      {"any 0 any shm any ring", "ranks is '0'; expected a number such as 4, 3-8, 3+, or any"},
      {"any 8-3 any shm any ring", "ranks is '8-3'"},
      {"any any x shm any ring", "per_cpu is 'x'"},
      {"any any 1 tcp any ring", "per_cpu is '1' with transport tcp; expected any"},
      {"any any any rdma any ring", "transport is 'rdma'; expected shm"},
      {"any any any shm 4Q ring", "up_to is '4Q'; expected bytes"},
      {"any any any shm any quick", "algorithm 'quick' is unknown; expected one of direct_inlined"},
      {"barrier any any shm any ring", "barrier has no algorithm 'ring'; expected one of"},
      {"any any any shm any ring,segment=4K", "ring takes no settings; direct_staged does"},
      {"any any any shm any direct_staged,size=4K", "setting is 'size=4K'; expected segment=BYTES"},
      {"any any any shm any direct_staged,ahead=3", "ahead is 3; expected 0 to 2"},
      {"any any any shm any direct_staged,ring=2M",
       "ring is 2M; expected a multiple of 64 from 256K"},
      {"any any any shm any direct_staged,segment=512K,ahead=1", "segment is 512K; expected"},
  };
  for (const auto& [row, text] : cases) {
    try {
      table_of(row + "\n");
      ADD_FAILURE() << row << " was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text)) << row;
      EXPECT_THAT(error.what(), testing::HasSubstr("tuning table t, line 2: "));
    }
  }
}

TEST(TuningTable, RefusesOtherVersionsAndMissingFiles) {
  EXPECT_THROW(TuningTable::parse("", "t"), InvalidArgument);
  EXPECT_THROW(TuningTable::parse("tutti-tuning 2\n", "t"), InvalidArgument);
  EXPECT_THROW(TuningTable::load("/nonexistent/table"), InvalidArgument);
  EXPECT_EQ(TuningTable::load("").source(), "built-in");
}

}  // namespace
}  // namespace tutti
