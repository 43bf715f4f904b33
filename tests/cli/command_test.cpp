// `tutti bench` and `tutti info` as scripts see them.
#include "cli/command.hpp"

#include <tutti/version.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>

namespace tutti::test {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kColumns = 12;
const std::string kHeader =
    "peer,op,dtype,ranks,bytes,median_us,min_us,max_us,algbw_GBps,busbw_GBps,placement,canary_ns";

Words bench(const Words& more) {
  Words words{"bench", "--reps", "2", "--time", "0.005"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// median within [min, max], bandwidths as the sizes and times say.
void expect_consistent(const Words& row, const std::map<std::string, double>& factors) {
  const double median_us = std::stod(row[5]);
  EXPECT_LE(std::stod(row[6]), median_us + 0.001);
  EXPECT_GE(std::stod(row[7]), median_us - 0.001);
  EXPECT_GT(median_us, 0);
  const double algbw = std::stod(row[4]) / median_us * 1e-3;
  EXPECT_NEAR(std::stod(row[8]), algbw, 0.0001 + algbw * 0.01);
  EXPECT_NEAR(std::stod(row[9]), algbw * factors.at(row[1]), 0.0001 + algbw * 0.01);
  EXPECT_TRUE(row[10] == "near" || row[10] == "far" || row[10] == "mixed" || row[10] == "-");
  EXPECT_GE(std::stod(row[11]), 0);
}

TEST(BenchCommand, PrintsCsvOfEveryOperation) {
  const Outcome outcome =
      run_tutti(bench({"--ranks", "2", "--csv", "--max", "64K", "--factor", "16"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.error, "");
  const Words lines = outcome.lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], kHeader);
  const std::map<std::string, double> factors{
      {"all_reduce", 1},   {"all_gather", 0.5}, {"reduce_scatter", 0.5}, {"broadcast", 1},
      {"all_to_all", 0.5}, {"barrier", 1},      {"sendrecv", 1},         {"bw", 1}};
  std::map<std::string, int> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Words row = fields(lines[i]);
    ASSERT_EQ(row.size(), kColumns) << lines[i];
    EXPECT_EQ(row[0], "tutti");
    EXPECT_EQ(row[2], row[1] == "barrier" ? "-" : "f32");
    EXPECT_EQ(row[3], "2");
    ASSERT_TRUE(factors.contains(row[1])) << lines[i];
    if (std::stoul(row[4]) >= 8) {  // below, every rank gets an element of its own
      expect_consistent(row, factors);
    }
    ++rows[row[1]];
  }
  for (const auto& [op, factor] : factors) {
    EXPECT_EQ(rows[op], op == "barrier" ? 1 : 4) << op;  // 4, 64, 1K, 16K
  }
}

TEST(BenchCommand, RunsOnlyWhatIsNamedWithThreeRanksOverTcp) {
  const Outcome outcome = run_tutti(bench({"all_reduce",  "--ops", "sendrecv,broadcast",
                                           "--ranks",     "3",     "--csv",
                                           "--header",    "0",     "--dtypes",
                                           "bf16,f64",    "--op",  "max",
                                           "--transport", "tcp",   "--min",
                                           "1K",          "--max", "4K",
                                           "--label",     "mine"}));
  EXPECT_EQ(outcome.status, 0);
  Words seen;
  for (const std::string& line : outcome.lines()) {
    const Words row = fields(line);
    ASSERT_EQ(row.size(), kColumns) << line;
    seen.push_back(fmt::format("{} {} {} {}", row[0], row[1], row[2], row[4]));
  }
  EXPECT_EQ(seen, (Words{"mine all_reduce bf16 1024", "mine all_reduce bf16 4096",
                         "mine all_reduce f64 1024", "mine all_reduce f64 4096",
                         "mine broadcast bf16 1024", "mine broadcast bf16 4096"}));
  EXPECT_NE(outcome.error.find("sendrecv is left out"), std::string::npos) << outcome.error;
}

TEST(BenchCommand, PrintsATableAndDrawsAPlot) {
  const std::string path = fmt::format("{}/tutti-plot-{}.svg", ::testing::TempDir(), ::getpid());
  const Outcome outcome = run_tutti(
      bench({"all_gather", "--ranks", "2", "--min", "1K", "--max", "4K", "--plot", path}));
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_NE(outcome.output.find("busbw GB/s"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("# 2 rows, 0 with wrong results"), std::string::npos);
  std::ifstream file(path);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  ::unlink(path.c_str());
}

TEST(BenchCommand, JoinsTheJobThatItIsStartedIn) {
  const Outcome outcome = run_tutti({"run", "-n", "2", "--prefix", "", "--", TUTTI_COMMAND, "bench",
                                     "barrier", "--csv", "--time", "0.005", "--reps", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  const Words lines = outcome.lines();
  ASSERT_EQ(lines.size(), 2U) << outcome.output;
  EXPECT_EQ(lines[1].substr(0, 18), "tutti,barrier,-,2,");
}

/// A path for this test, gone when it ends.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
      : path(fmt::format("{}/tutti-{}-{}", ::testing::TempDir(), ::getpid(), name)) {}
  ~TemporaryFile() { ::unlink(path.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path{};
};

TEST(BenchCommand, AddsColumnsOfSingleCallsAndUsage) {
  const Outcome outcome = run_tutti(
      bench({"all_reduce", "--ranks", "2", "--csv", "--stats", "--min", "1K", "--max", "1K"}));
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  const Words lines = outcome.lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], kHeader + ",p50_us,p99_us,cpu_us,faults");
  const Words row = fields(lines[1]);
  ASSERT_EQ(row.size(), kColumns + 4);
  EXPECT_GT(std::stod(row[12]), 0);
  EXPECT_GE(std::stod(row[13]), std::stod(row[12]));
  EXPECT_GT(std::stod(row[14]), 0);
}

TEST(BenchCommand, ComparesTwoFiles) {
  const TemporaryFile slow("slow.csv");
  const TemporaryFile fast("fast.csv");
  std::ofstream(slow.path) << "a,barrier,-,2,0,3.0,1,1,0,0,near,80\n";
  std::ofstream(fast.path) << "b,barrier,-,2,0,2.0,1,1,0,0,near,80\n";
  const Outcome better = run_tutti({"bench", "--compare", slow.path, fast.path});
  EXPECT_EQ(better.status, 0) << better.error;
  EXPECT_NE(better.output.find("1.500"), std::string::npos) << better.output;
  EXPECT_EQ(run_tutti({"bench", "--compare", fast.path, slow.path}).status, 0);
  const Outcome worse =
      run_tutti({"bench", "--compare", fast.path, slow.path, "--fail-below", "0.9"});
  EXPECT_EQ(worse.status, 1);
  EXPECT_NE(worse.output.find("below 0.9"), std::string::npos) << worse.output;
}

TEST(BenchCommand, WritesATuningTableThatInfoShows) {
  const TemporaryFile table("tuning.txt");
  const Outcome outcome = run_tutti(bench({"broadcast", "barrier", "--ranks", "2", "--min", "1K",
                                           "--max", "16K", "--tune", "--out", table.path}));
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  ::setenv("TUTTI_TUNING", table.path.c_str(), 1);
  const Outcome info = run_tutti({"info", "--ranks", "2"});
  ::unsetenv("TUTTI_TUNING");
  EXPECT_EQ(info.status, 0) << info.error;
  EXPECT_NE(info.output.find(table.path + ", digest "), std::string::npos) << info.output;
  EXPECT_NE(info.output.find("broadcast      2"), std::string::npos) << info.output;
}

struct Refusal {
  Words arguments{};
  std::string text{};
};

TEST(BenchCommand, RefusesWhatItDoesNotKnow) {
  const std::vector<Refusal> refusals{
      {{"nonsense"}, "operation 'nonsense' is unknown; there are all_reduce, all_gather"},
      {{"--dtypes", "f33"}, "--dtypes 'f33' is unknown; there are bool, u8"},
      {{"--op", "avg", "--dtypes", "bool"}, "all_reduce: --op avg is not defined for bool"},
      {{"--max", "5X"}, "--max '5X' is not a number of bytes"},
      {{"--min", "9", "--max", "8"}, "--min 9 is above --max 8"},
      {{"--factor", "1"}, "--factor 1 is below 2"},
      {{"--algorithm", "ring", "barrier"}, "barrier has no algorithm 'ring'"},
      {{"--pin", "all"}, "--pin 'all' is neither auto nor none"},
      {{"--tune", "--csv"}, "--tune tries all algorithms"},
      {{"--out", "x", "barrier"}, "--out 'x' is the file that --tune writes"},
      {{"--compare", "/no/a", "/no/b"}, "--compare /no/a: the file cannot be read"},
      {{"--algorithm", "direct_staged,segment=3"}, "segment is 3; expected a multiple of 64"},
      {{"--ranks", "2", "--backend", "no_such", "barrier"}, "backend 'no_such' is unknown"},
      {{"--ranks", "2", "--transport", "pigeon", "barrier"}, "transport is 'pigeon'"},
  };
  for (const Refusal& refusal : refusals) {
    const Outcome outcome = run_tutti(bench(refusal.arguments));
    EXPECT_EQ(outcome.status, 2) << refusal.text;
    EXPECT_EQ(outcome.output, "") << refusal.text;
    const std::size_t at = outcome.error.find(refusal.text);
    EXPECT_NE(at, std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.error.find(refusal.text, at + 1), std::string::npos) << "said twice";
  }
}

TEST(InfoCommand, PrintsVersionSelectionAndPeers) {
  const Outcome outcome = run_tutti({"info", "--ranks", "2", "--transport", "tcp"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.lines().at(0), fmt::format("version         tutti {}", kVersion));
  for (const std::string text : {"compiler", "membarrier", "all_reduce", "rank 1 to rank 0: tcp"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text << "\n" << outcome.output;
  }
}

}  // namespace
}  // namespace tutti::test
