#include "transport/frame.hpp"

#include "base/limits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tutti {
namespace {

using Header = std::array<std::byte, kFrameHeaderBytes>;

Header encoded(const Frame& frame) {
  Header header{};
  encode(frame, header.data());
  return header;
}

std::string trouble(const Header& header) {
  Frame frame;
  return decode(header.data(), frame).value_or("");
}

TEST(Frame, ComesBackAsItWentIn) {
  const Frame sent{.kind = FrameKind::chunk,
                   .payload_bytes = 4096,
                   .key = {.group = 0x0102030405060708, .tag = 0x1112131415161718},
                   .stamp = 0x2122232425262728,
                   .bytes = 0x1000000000,
                   .id = 0x3132333435363738};
  Frame got;
  EXPECT_FALSE(decode(encoded(sent).data(), got).has_value());
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.payload_bytes, sent.payload_bytes);
  EXPECT_EQ(got.key, sent.key);
  EXPECT_EQ(got.stamp, sent.stamp);
  EXPECT_EQ(got.bytes, sent.bytes);
  EXPECT_EQ(got.id, sent.id);
}

TEST(Frame, LiesInMemoryAsDocumented) {
  const Header header =
      encoded({.kind = FrameKind::announce, .key = {.group = 1}, .bytes = 0x0203});
  EXPECT_EQ(header[0], std::byte{0x54});
  EXPECT_EQ(header[1], std::byte{0x75});
  EXPECT_EQ(header[2], std::byte{1});
  EXPECT_EQ(header[3], std::byte{2});
  EXPECT_EQ(header[8], std::byte{1});
  EXPECT_EQ(header[32], std::byte{3});
  EXPECT_EQ(header[33], std::byte{2});
}

TEST(Frame, EveryKindPassesAtItsBoundsAndFailsBeyond) {
  struct Case {
    FrameKind kind;
    std::size_t payload_bytes;
    std::size_t bytes;
  };
  const std::array cases{
      Case{FrameKind::announce, 0, limits::kMaxMessageBytes},
      Case{FrameKind::chunk, limits::kChunkBytes, limits::kMaxMessageBytes},
      Case{FrameKind::credit, 0, limits::kEagerCreditBytes},
      Case{FrameKind::fault, limits::kMaxFaultTextBytes, 0},
      Case{FrameKind::clear, 0, 0},
      Case{FrameKind::drop, 0, 0},
      Case{FrameKind::withdraw, 0, 0},
      Case{FrameKind::probe, 0, 0},
      Case{FrameKind::bye, 0, 0},
      Case{FrameKind::data, limits::kEagerBytes, limits::kEagerBytes},
  };
  for (const Case& c : cases) {
    Frame frame{.kind = c.kind,
                .payload_bytes = static_cast<std::uint32_t>(c.payload_bytes),
                .bytes = c.bytes};
    EXPECT_EQ(trouble(encoded(frame)), "");
    ++frame.bytes;
    EXPECT_NE(trouble(encoded(frame)), "");
    --frame.bytes;
    ++frame.payload_bytes;
    EXPECT_NE(trouble(encoded(frame)), "");
  }
}

TEST(Frame, SaysWhatIsWrong) {
  Header header = encoded({.kind = FrameKind::bye});
  header[0] = std::byte{'G'};
  EXPECT_EQ(trouble(header), "frame starts with 0x7547, expected 0x7554");
  header = encoded({.kind = FrameKind::bye});
  header[2] = std::byte{9};
  EXPECT_NE(trouble(header).find("version 9"), std::string::npos);
  for (const int kind : {0, 11, 255}) {
    header = encoded({.kind = FrameKind::bye});
    header[3] = static_cast<std::byte>(kind);
    EXPECT_NE(trouble(header).find("unknown kind"), std::string::npos);
  }
  EXPECT_NE(trouble(encoded({.kind = FrameKind::data, .payload_bytes = 5, .bytes = 6})), "");
  EXPECT_NE(trouble(encoded({.kind = FrameKind::chunk, .bytes = 6})), "");
  EXPECT_NE(trouble(encoded({.kind = FrameKind::fault, .stamp = 100})), "");
  EXPECT_NE(trouble(encoded({.kind = FrameKind::fault, .id = limits::kMaxWorldSize + 1})), "");
}

}  // namespace
}  // namespace tutti
