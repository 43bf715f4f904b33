#include "launcher/line_splitter.hpp"

#include "base/limits.hpp"
#include "base/rng.hpp"

#include <gtest/gtest.h>

namespace tutti::launcher {
namespace {

TEST(LineSplitter, PrefixesWholeLines) {
  LineSplitter lines("[3] ");
  std::string out;
  lines.feed("one\ntwo\nthr", out);
  EXPECT_EQ(out, "[3] one\n[3] two\n");
  lines.feed("ee\n\n", out);
  EXPECT_EQ(out, "[3] one\n[3] two\n[3] three\n[3] \n");
  lines.finish(out);
  EXPECT_EQ(out, "[3] one\n[3] two\n[3] three\n[3] \n");
}

TEST(LineSplitter, KeepsAnUnfinishedLastLine) {
  LineSplitter lines("> ");
  std::string out;
  lines.feed("END", out);
  EXPECT_EQ(out, "");
  lines.finish(out);
  EXPECT_EQ(out, "> END\n");
}

TEST(LineSplitter, BreaksEndlessLinesSoThatMemoryStaysBounded) {
  LineSplitter lines(":");
  std::string out;
  const std::string endless(limits::kMaxLineBytes + 5, 'x');
  lines.feed(endless, out);
  EXPECT_EQ(out, ":" + std::string(limits::kMaxLineBytes, 'x') + "\n");
  out.clear();
  lines.feed("\n", out);
  EXPECT_EQ(out, ":xxxxx\n");
}

TEST(LineSplitter, DoesNotCareHowTheBytesAreCut) {
  Rng rng(7);
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += rng.below(9) == 0 ? '\n' : static_cast<char>(rng.below(256));
  }
  LineSplitter whole("p ");
  std::string expected;
  whole.feed(text, expected);
  whole.finish(expected);
  LineSplitter cut("p ");
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = 1 + rng.below(40);
    cut.feed(std::string_view(text).substr(at, length), out);
    at += length;
  }
  cut.finish(out);
  EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace tutti::launcher
