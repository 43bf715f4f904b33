// What the launcher does with the output of the ranks. FC-L5, FC-L6.
#include "launcher/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

namespace tutti::test {
namespace {

using std::chrono::seconds;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kCount =
    "i=0; while [ $i -lt 1000 ]; do echo R$RANK $i; i=$((i+1)); done; printf END$RANK";

// Every line carries its own rank and follows its predecessor; "END" is the last one.
void expect_whole_and_ordered(const std::vector<std::string>& lines, const std::string& pattern) {
  std::map<std::string, int> next;
  const std::regex form(pattern);
  for (const std::string& line : lines) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, form)) << line;
    int& expected = next[parts[1]];
    if (parts[2].matched) {
      ASSERT_EQ(std::stoi(parts[2]), expected) << line;
      ++expected;
    }
  }
}

TEST(LauncherOutput, FC_L5_LinesComeWholePrefixedAndInOrder) {
  const TemporaryFolder folder;
  Launch launch({"-n", "4", "--prefix", "{host}:{rank}: ", "--log-dir", folder / "logs", "--", "sh",
                 "-c", kCount});
  EXPECT_EQ(launch.wait(), 0);
  const auto lines = lines_of(launch.output());
  EXPECT_EQ(lines.size(), 4004U);
  expect_whole_and_ordered(lines, "[^:]+:(\\d): (?:R\\1 (\\d+)|END\\1)");
  for (int rank = 0; rank < 4; ++rank) {
    std::string expected;
    for (int i = 0; i < 1000; ++i) {
      expected += fmt::format("R{} {}\n", rank, i);
    }
    expected += fmt::format("END{}", rank);
    EXPECT_EQ(contents(folder / fmt::format("logs/rank-{}.stdout", rank)), expected);
    EXPECT_EQ(contents(folder / fmt::format("logs/rank-{}.stderr", rank)), "");
  }
}

TEST(LauncherOutput, FC_L5_ShowsOnlyTheRanksAskedFor) {
  const TemporaryFolder folder;
  Launch launch(
      {"-n", "4", "--filter-ranks", "0", "--log-dir", folder / "logs", "sh", "-c", kCount});
  EXPECT_EQ(launch.wait(), 0);
  const auto lines = lines_of(launch.output());
  EXPECT_EQ(lines.size(), 1001U);
  expect_whole_and_ordered(lines, "\\[(0)\\] (?:R0 (\\d+)|END0)");
  EXPECT_EQ(lines_of(contents(folder / "logs/rank-3.stdout")).size(), 1001U);
}

TEST(LauncherOutput, FC_L5_ForwardsALineAtOnce) {
  Launch launch({"-n", "1", "sh", "-c", "echo first; exec sleep 1000"});
  EXPECT_TRUE(launch.wait_for_output("[0] first\n"));
}

TEST(LauncherOutput, KeepsStandardErrorApart) {
  Launch launch({"-n", "2", "sh", "-c", "echo out$RANK; echo err$RANK >&2"});
  EXPECT_EQ(launch.wait(), 0);
  EXPECT_EQ(lines_of(launch.output()).size(), 2U);
  EXPECT_NE(launch.error().find("[1] err1\n"), std::string::npos);
}

const std::string kMuch =
    "awk -v r=$RANK 'BEGIN { for (i = 0; i < 20000; ++i) printf \"%-79s\\n\", r \" \" i \" \" }'";

TEST(LauncherOutput, FC_L6_WaitsForASlowReaderWithBoundedMemory) {
  Launch launch({"-n", "2", "--prefix", "", "sh", "-c", kMuch});
  const std::size_t before = memory_of(launch.pid(), "VmRSS");
  EXPECT_FALSE(launch.ends_within(seconds(2)));  // nobody reads: it has to wait
  const std::size_t peak = memory_of(launch.pid(), "VmHWM");
  EXPECT_LT(peak, before + (std::size_t{64} << 20));
  EXPECT_EQ(::fcntl(launch.far_output_end(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(launch.wait(), 0);
  const auto lines = lines_of(launch.output());
  EXPECT_EQ(lines.size(), 40000U);
  std::array<int, 2> next{};
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 79U);
    const auto rank = static_cast<std::size_t>(line.at(0) - '0');
    ASSERT_LT(rank, 2U);
    ASSERT_EQ(std::stoi(line.substr(2)), next.at(rank)++);
  }
}

TEST(LauncherOutput, FC_L6_AClosedReaderDoesNotChangeTheResult) {
  Launch launch({"-n", "2", "sh", "-c", kMuch + "; exit 0"});
  launch.close_output();
  launch.close_far_output_end();
  EXPECT_EQ(launch.wait(), 0);
  EXPECT_EQ(launch.error(), "");
  EXPECT_TRUE(no_process_left(seconds(0)));
}

TEST(LauncherOutput, FC_L6_AStuckReaderDoesNotKeepASignalledJob) {
  Launch launch({"-n", "2", "sh", "-c", "yes"});
  ASSERT_TRUE(launch.wait_for_output("[0] y"));
  EXPECT_FALSE(launch.ends_within(std::chrono::milliseconds(300)));
  launch.signal(SIGINT);
  EXPECT_FALSE(launch.ends_within(std::chrono::milliseconds(1200)));  // still offers the rest
  launch.signal(SIGINT);
  EXPECT_TRUE(launch.ends_within(seconds(10)));
  EXPECT_EQ(launch.wait(), 130);
}

TEST(LauncherOutput, KeepsLinesWholeWhenBothOutputsAreOnePipe) {
  Launch launch(LaunchOptions{
      .arguments = {"-n", "2", "--prefix", "", "sh", "-c", kMuch + " & " + kMuch + " >&2; wait"},
      .merged = true});
  EXPECT_EQ(launch.wait(), 0);
  const auto lines = lines_of(launch.output());
  EXPECT_EQ(lines.size(), 80000U);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 79U);
  }
}

TEST(LauncherOutput, WritesToFilesAndKeepsWhatIsInThem) {
  const TemporaryFolder folder;
  // The launcher inherits an offset and a mode, as after `echo x > f; tutti run ... >> f`.
  const std::string command = fmt::format(
      "(echo before; {0} run -n 2 sh -c 'echo $RANK'; echo after) > {1}; (echo more; {0} run -n 1 "
      "echo last) >> {1}",
      TUTTI_COMMAND, folder / "file");
  ASSERT_EQ(::system(command.c_str()), 0);
  const auto lines = lines_of(contents(folder / "file"));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0], "before");
  EXPECT_EQ(lines[3], "after");
  EXPECT_EQ(lines[5], "[0] last");
}

TEST(LauncherOutput, LinesOfPythonProgramsComeAtOnce) {
  const TemporaryFolder folder;
  std::ofstream(folder / "program.py") << "import os, sys, time\nprint('rank', os.environ['RANK'], "
                                          "sys.argv[1:])\ntime.sleep(1000)\n";
  Launch launch({"-n", "2", folder / "program.py", "--flag", "[1,2]"});
  EXPECT_TRUE(launch.wait_for_output("[1] rank 1 ['--flag', '[1,2]']\n"));
  launch.signal(SIGTERM);
  EXPECT_EQ(launch.wait(), 143);
}

TEST(LauncherOutput, GivesStandardInputToRankZero) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_EQ(::write(writer.get(), "typed\n", 6), 6);
  writer.reset();
  Launch launch(LaunchOptions{.arguments = {"-n", "2", "cat"}, .standard_input = reader.get()});
  EXPECT_EQ(launch.wait(), 0);
  EXPECT_EQ(launch.output(), "[0] typed\n");
}

}  // namespace
}  // namespace tutti::test
