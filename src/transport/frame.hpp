// Frames: what the channels of two ranks say to each other over a link. A header of 48 bytes,
// little-endian (docs/wire.md, "Messages"), then `payload_bytes` of payload. decode() is the only
// door for bytes from a peer; whatever it lets pass lies within base/limits.hpp.
#pragma once

#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

enum class FrameKind : std::uint8_t {
  data = 1,  ///< a whole small message
  announce,  ///< a large message waits for its receive; `id` names it from now on
  clear,     ///< to an announce: the receive is there, send the payload
  chunk,     ///< part of the payload of message `id`, at offset `bytes`
  credit,    ///< `bytes` of eager credit come back
  drop,      ///< to an announce: never send it, it does not fit its receive
  withdraw,  ///< the announced message `id` was cancelled
  fault,     ///< group `key.group` failed; stamp: error kind, id: peer + 1, payload: text
  probe,  ///< a rank waits in call `key.tag` of group `key.group`; stamp: what it called, id: its
          ///< history
  bye,    ///< the sender leaves in good order; nothing follows
};

struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint32_t payload_bytes = 0;
  MessageKey key{};
  std::uint64_t stamp = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
};

inline constexpr std::size_t kFrameHeaderBytes = 48;
inline constexpr std::uint16_t kFrameMagic = 0x7554;
inline constexpr std::uint8_t kFrameVersion = 1;

/// Writes the header of `frame` to `out`, kFrameHeaderBytes long.
void encode(const Frame& frame, std::byte* out);
/// Reads a header from `in`; the text says what is wrong with it, nothing if all is well.
std::optional<std::string> decode(const std::byte* in, Frame& frame);

}  // namespace tutti
