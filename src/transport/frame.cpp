#include "transport/frame.hpp"

#include "base/limits.hpp"

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstring>

namespace tutti {
namespace {

// Offsets in the header; docs/wire.md shows the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 2;
constexpr std::size_t kKindAt = 3;
constexpr std::size_t kPayloadAt = 4;
constexpr std::size_t kGroupAt = 8;
constexpr std::size_t kTagAt = 16;
constexpr std::size_t kStampAt = 24;
constexpr std::size_t kBytesAt = 32;
constexpr std::size_t kIdAt = 40;

template <std::unsigned_integral T>
T little(T value) {
  if constexpr (std::endian::native == std::endian::little) {
    return value;
  }
  T swapped = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    swapped = static_cast<T>(swapped | (((value >> (8 * i)) & 0xff) << (8 * (sizeof(T) - 1 - i))));
  }
  return swapped;
}

template <std::unsigned_integral T>
void put(std::byte* at, T value) {
  value = little(value);
  std::memcpy(at, &value, sizeof(T));
}

template <std::unsigned_integral T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return little(value);
}

struct Bound {
  std::uint64_t payload_bytes = 0;
  std::uint64_t bytes = 0;
};

Bound bound_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::data:
      return {.payload_bytes = limits::kEagerBytes, .bytes = limits::kEagerBytes};
    case FrameKind::announce:
      return {.bytes = limits::kMaxMessageBytes};
    case FrameKind::chunk:
      return {.payload_bytes = limits::kChunkBytes, .bytes = limits::kMaxMessageBytes};
    case FrameKind::credit:
      return {.bytes = limits::kEagerCreditBytes};
    case FrameKind::fault:
      return {.payload_bytes = limits::kMaxFaultTextBytes};
    case FrameKind::clear:
    case FrameKind::drop:
    case FrameKind::withdraw:
    case FrameKind::probe:
    case FrameKind::bye:
      break;
  }
  return {};
}

std::optional<std::string> check(const Frame& frame) {
  const auto kind = static_cast<unsigned>(frame.kind);
  const Bound bound = bound_of(frame.kind);
  if (frame.payload_bytes > bound.payload_bytes) {
    return fmt::format("frame of kind {} with {} bytes of payload, at most {} allowed", kind,
                       frame.payload_bytes, bound.payload_bytes);
  }
  if (frame.bytes > bound.bytes) {
    return fmt::format("frame of kind {} with size field {}, at most {} allowed", kind, frame.bytes,
                       bound.bytes);
  }
  if (frame.kind == FrameKind::data && frame.payload_bytes != frame.bytes) {
    return fmt::format("message of {} bytes in a frame with {} bytes of payload", frame.bytes,
                       frame.payload_bytes);
  }
  if (frame.kind == FrameKind::chunk && frame.payload_bytes == 0) {
    return "chunk frame without payload";
  }
  if (frame.kind == FrameKind::fault &&
      (frame.stamp > static_cast<std::uint64_t>(ErrorKind::internal) ||
       frame.id > static_cast<std::uint64_t>(limits::kMaxWorldSize))) {
    return fmt::format("fault frame with error kind {} about peer {}", frame.stamp, frame.id);
  }
  return std::nullopt;
}

}  // namespace

void encode(const Frame& frame, std::byte* out) {
  put(out + kMagicAt, kFrameMagic);
  put(out + kVersionAt, kFrameVersion);
  put(out + kKindAt, static_cast<std::uint8_t>(frame.kind));
  put(out + kPayloadAt, frame.payload_bytes);
  put(out + kGroupAt, frame.key.group);
  put(out + kTagAt, frame.key.tag);
  put(out + kStampAt, frame.stamp);
  put(out + kBytesAt, frame.bytes);
  put(out + kIdAt, frame.id);
}

std::optional<std::string> decode(const std::byte* in, Frame& frame) {
  const auto magic = get<std::uint16_t>(in + kMagicAt);
  if (magic != kFrameMagic) {
    return fmt::format("frame starts with {:#06x}, expected {:#06x}", magic, kFrameMagic);
  }
  const auto version = get<std::uint8_t>(in + kVersionAt);
  if (version != kFrameVersion) {
    return fmt::format("frame version {}, this rank speaks {}; run the same tutti on all ranks",
                       version, kFrameVersion);
  }
  const auto kind = get<std::uint8_t>(in + kKindAt);
  if (kind < static_cast<std::uint8_t>(FrameKind::data) ||
      kind > static_cast<std::uint8_t>(FrameKind::bye)) {
    return fmt::format("frame of unknown kind {}", kind);
  }
  frame.kind = static_cast<FrameKind>(kind);
  frame.payload_bytes = get<std::uint32_t>(in + kPayloadAt);
  frame.key.group = get<std::uint64_t>(in + kGroupAt);
  frame.key.tag = get<std::uint64_t>(in + kTagAt);
  frame.stamp = get<std::uint64_t>(in + kStampAt);
  frame.bytes = get<std::uint64_t>(in + kBytesAt);
  frame.id = get<std::uint64_t>(in + kIdAt);
  return check(frame);
}

}  // namespace tutti
