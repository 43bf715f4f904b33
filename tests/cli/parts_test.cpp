// The parts of `tutti bench` that need no ranks.
#include "base/byte_text.hpp"
#include "cli/bench_check.hpp"
#include "cli/bench_compare.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_plot.hpp"
#include "cli/bench_report.hpp"
#include "cli/bench_timer.hpp"
#include "cli/bench_tune.hpp"
#include "cli/info_facts.hpp"
#include "plan/request.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tutti::cli {
namespace {

Row row_of(std::string_view op, std::size_t bytes) {
  return {.op = find_bench_op(op),
          .ranks = 2,
          .bytes = bytes,
          .elements = bytes / 4,
          .median_s = 2e-6,
          .min_s = 1.5e-6,
          .max_s = 3e-6,
          .algbw_GBps = 0.5,
          .busbw_GBps = 0.25,
          .placement = "near",
          .canary_ns = 83.4};
}

TEST(BenchOptions, ReadsSizes) {
  EXPECT_EQ(parse_bytes("--min", "4"), 4U);
  EXPECT_EQ(parse_bytes("--min", "64K"), 65536U);
  EXPECT_EQ(parse_bytes("--min", "1.5m"), 1572864U);
  EXPECT_EQ(parse_bytes("--min", "2G"), std::size_t{2} << 30);
  for (const char* text : {"", "K", "4KB", "-1", "nan", "1e30", "4 K"}) {
    EXPECT_THROW(parse_bytes("--min", text), InvalidArgument) << text;
  }
}

TEST(BenchOptions, NoOperationMeansAllThatHaveTheAlgorithm) {
  EXPECT_EQ(parse_bench({}).ops.size(), bench_ops().size());
  const BenchOptions ring = parse_bench({.algorithm = "ring"});
  EXPECT_GT(ring.ops.size(), 1U);
  for (const BenchOp* row : ring.ops) {
    EXPECT_NE(row->name, "barrier");
  }
  EXPECT_THROW(parse_bench({.algorithm = "no_such"}), InvalidArgument);
}

TEST(BenchOptions, OperationsThatMoveBytesTakeOneType) {
  const BenchOptions both = parse_bench({.dtypes = "f16,f32"});
  EXPECT_EQ(dtypes_of(*find_bench_op("all_reduce"), both).size(), 2U);
  EXPECT_EQ(dtypes_of(*find_bench_op("broadcast"), both), std::vector<DType>{DType::f32});
  const BenchOptions other = parse_bench({.dtypes = "bfloat16,i8"});
  EXPECT_EQ(dtypes_of(*find_bench_op("broadcast"), other), std::vector<DType>{DType::bf16});
}

TEST(BenchLayout, CountsBytesAsThePeersDo) {
  const Layout gather = layout_of(*find_bench_op("all_gather"), DType::f32, 64, 4);
  EXPECT_EQ(gather.in_elements, 4U);
  EXPECT_EQ(gather.out_elements, 16U);
  EXPECT_EQ(gather.bytes(), 64U);
  const Layout scatter = layout_of(*find_bench_op("reduce_scatter"), DType::f32, 4, 3);
  EXPECT_EQ(scatter.in_elements, 3U);  // at least one element per rank
  EXPECT_EQ(scatter.out_elements, 1U);
  EXPECT_EQ(scatter.bytes(), 12U);
  EXPECT_EQ(layout_of(*find_bench_op("bw"), DType::f32, 1024, 2).window, 16);
  EXPECT_EQ(layout_of(*find_bench_op("bw"), DType::f32, std::size_t{8} << 20, 2).window, 4);
  EXPECT_EQ(layout_of(*find_bench_op("sendrecv"), DType::f32, 1024, 2).window, 1);
}

TEST(BenchPattern, FindsEveryElementThatDiffers) {
  const Pattern pattern = contribution(DType::i16, ReduceOp::sum, 3);
  const Tensor tensor = Tensor::zeros({5000}, DType::i16);
  EXPECT_EQ(pattern.differences(tensor, {.elements = 5000}), 5000U);
  pattern.fill(tensor, {.place = 7, .elements = 5000});
  EXPECT_EQ(pattern.differences(tensor, {.place = 7, .elements = 5000}), 0U);
  EXPECT_GT(pattern.differences(tensor, {.place = 8, .elements = 5000}), 1000U);
  EXPECT_EQ(
      pattern.differences(tensor, {.offset = 2000, .place = 2007 % kPeriod, .elements = 3000}), 0U);
  tensor.set_element(4999, -1);
  EXPECT_EQ(pattern.differences(tensor, {.place = 7, .elements = 5000}), 1U);
}

TEST(BenchPattern, NeighboursDifferEverywhere) {
  const Tensor tensor = Tensor::zeros({static_cast<std::int64_t>(kPeriod)}, DType::f8e5m2);
  contribution(DType::f8e5m2, ReduceOp::sum, 4).fill(tensor, {.elements = kPeriod});
  EXPECT_EQ(
      contribution(DType::f8e5m2, ReduceOp::sum, 5).differences(tensor, {.elements = kPeriod}),
      kPeriod);
}

TEST(BenchPattern, ReductionOfOneRankIsItsContribution) {
  for (const DTypeInfo& type : kDTypes) {
    for (std::size_t i = 0; i < kReduceOpCount; ++i) {
      const auto op = static_cast<ReduceOp>(i);
      if (!allows(op, type.dtype, {})) {
        continue;
      }
      const Tensor tensor = Tensor::zeros({static_cast<std::int64_t>(kPeriod)}, type.dtype);
      contribution(type.dtype, op, 0).fill(tensor, {.elements = kPeriod});
      EXPECT_EQ(reduction(type.dtype, {.op = op}, 1).differences(tensor, {.elements = kPeriod}), 0U)
          << type.name << " " << name(op);
    }
  }
}

TEST(BenchReport, WritesTheColumnsOfThePeers) {
  EXPECT_EQ(csv_line("tutti", row_of("all_gather", 1024)),
            "tutti,all_gather,f32,2,1024,2.000,1.500,3.000,0.5000,0.2500,near,83");
  EXPECT_EQ(csv_line("x", row_of("barrier", 0)).substr(0, 14), "x,barrier,-,2,");
  EXPECT_EQ(short_bytes(0), "0");
  EXPECT_EQ(short_bytes(1536), "1536");
  EXPECT_EQ(short_bytes(std::size_t{4} << 20), "4M");
}

TEST(BenchReport, WritesMoreColumnsIfAsked) {
  Row row = row_of("all_reduce", 64);
  row.p50_s = 1e-6;
  row.p99_s = 9e-6;
  row.cpu_s = 2.5e-6;
  row.faults = 0.125;
  EXPECT_EQ(csv_line("x", row, true), csv_line("x", row) + ",1.000,9.000,2.500,0.1250");
  EXPECT_EQ(csv_header(true), csv_header() + ",p50_us,p99_us,cpu_us,faults");
}

TEST(BenchTimer, QuantilesAreValuesThatWereSeen) {
  const std::vector<double> values{1, 2, 3, 10};
  EXPECT_EQ(median(values), 2.5);
  EXPECT_EQ(quantile(values, 0.5), 2);
  EXPECT_EQ(quantile(values, 0.99), 10);
  EXPECT_EQ(quantile({7}, 0.01), 7);
}

constexpr std::string_view kBefore =
    "peer,op,dtype,ranks,bytes,median_us,min_us,max_us,algbw_GBps,busbw_GBps,placement,canary_ns\n"
    "old,all_reduce,f32,2,4,4.0,1,1,1,1,near,80\n"
    "old,all_reduce,f32,2,4,2.0,1,1,1,1,near,80\n"
    "old,all_reduce,f32,2,4,6.0,1,1,1,1,near,80\n"
    "old,all_reduce,f32,2,64,8.0,1,1,1,1,near,80\n"
    "old,all_reduce,f32,2,64,800,1,1,1,1,far,400\n"
    "old,all_reduce,f32,2,1048576,100,1,1,1,1,near,80\n";

TEST(BenchCompare, ComparesCellsOfEqualPlacementByClass) {
  const auto after = read_rows(
      "new,all_reduce,f32,2,4,2.0,1,1,1,1,near,80,0,0.1\n"
      "new,all_reduce,f32,2,64,1.0,1,1,1,1,near,80,0,0.1\n"
      "new,all_reduce,f32,2,64,1.0,1,1,1,1,mixed,80,0,0.1\n"
      "new,all_reduce,f32,2,1048576,200,1,1,1,1,near,80,0,0.1\n"
      "new,all_reduce,f32,4,4,200,1,1,1,1,near,80,0,0.1\n",
      "b");
  const auto table = compare(read_rows(kBefore, "a"), after);
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[0].size_class, "small");
  EXPECT_EQ(table[0].cells, 2);
  EXPECT_NEAR(table[0].ratio, 4, 1e-9);  // of 2 and 8
  EXPECT_NEAR(table[0].least, 2, 1e-9);
  EXPECT_NEAR(table[0].most, 8, 1e-9);
  EXPECT_EQ(table[1].size_class, "large");
  EXPECT_NEAR(table[1].ratio, 0.5, 1e-9);
}

TEST(BenchCompare, KeepsPeersApartWhereAFileHasSeveral) {
  const std::string both = std::string(kBefore) + "other,all_reduce,f32,2,4,1,1,1,1,1,near,80\n";
  const auto table = compare(read_rows(both, "a"), read_rows(both, "b"));
  ASSERT_EQ(table.size(), 4U);
  for (const Comparison& row : table) {
    EXPECT_NEAR(row.ratio, 1, 1e-9);
    EXPECT_NE(row.peer, "");
  }
}

TEST(BenchCompare, NamesTheLineThatItCannotRead) {
  for (const auto& [text, message] :
       {std::pair("x,barrier\n", "f, line 1: 2 columns; expected at least 11"),
        std::pair("\na,b,c,2,4,fast,1,1,1,1,near\n", "f, line 2: median_us is 'fast'")}) {
    try {
      read_rows(text, "f");
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

TEST(BenchTune, MakesAsFewRowsAsSayWhatIsFastest) {
  const Choice small = parse_choice("direct_inlined");
  const Choice large = parse_choice("direct_staged,segment=64K,ahead=0,ring=1M");
  const std::array points{Fastest{4, small}, Fastest{64, small}, Fastest{1024, large},
                          Fastest{16384, large}};
  const TuningRow like{.op = Op::broadcast, .ranks = {.from = 2, .to = 2}};
  const auto rows = rows_of(like, points);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].up_to, 64U);
  EXPECT_EQ(rows[0].choice, small);
  EXPECT_EQ(rows[1].up_to, TuningRow::kAnySize);
  EXPECT_EQ(rows[1].choice, large);

  TuningRow other = like;
  other.ranks = {.from = 4, .to = 4};
  const std::array old{TuningRow(like), other};
  const auto all = merged(old, rows);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2], other);
}

TEST(BenchReport, KeepsWrongResultsOutOfTheCsv) {
  const BenchOptions options = parse_bench({.csv = true});
  Report report(options);
  Row wrong = row_of("all_reduce", 64);
  wrong.wrong = 3;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  report.begin("");
  report.add(wrong);
  report.end();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), csv_header() + "\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "WRONG RESULT tutti all_reduce f32 ranks=2 bytes=64: 3 elements\n");
}

TEST(BenchPlot, DrawsALinePerOperationAndEscapesItsTitle) {
  const std::array rows{row_of("all_gather", 64), row_of("all_gather", 4096), row_of("barrier", 0),
                        row_of("bw", 64)};
  const std::string svg = plot_svg("a<b", rows);
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2U);
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(plot_svg("empty", {}).find("nan"), std::string::npos);
}

TEST(InfoFacts, ShowsVariablesThatAreSetButNoSecret) {
  const Fact fact = environment_facts([](std::string_view name) -> std::optional<std::string> {
    if (name == "TUTTI_SECRET" || name == "TUTTI_WAIT") {
      return "hidden";
    }
    return std::nullopt;
  });
  EXPECT_EQ(fact.lines, (std::vector<std::string>{"TUTTI_WAIT=hidden", "TUTTI_SECRET is set"}));
}

TEST(InfoFacts, SelectionHasALinePerCollective) {
  for (const Fact& situation : selection_facts({})) {
    EXPECT_EQ(situation.lines.size(), kSpecs.size() - 2) << situation.name;
  }
}

}  // namespace
}  // namespace tutti::cli
