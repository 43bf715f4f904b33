// For tests of the message layer: a send and a receive that own their bytes.
#pragma once

#include "transport/transport.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

namespace tutti {

inline constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSmallBytes = 100;

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xff);
  }
  return data;
}

/// A send or a receive with its bytes.
struct Out {
  Out(int peer, MessageKey key, std::size_t bytes, unsigned seed = 0) : data(pattern(bytes, seed)) {
    op.peer = peer;
    op.key = key;
    op.stamp = 7;
    op.data = data.data();
    op.bytes = bytes;
  }
  TransferState state() const { return op.state.load(std::memory_order_acquire); }
  std::vector<std::byte> data;
  SendOp op;
};
struct In {
  In(int peer, MessageKey key, std::size_t bytes) : data(bytes, std::byte{0xee}) {
    op.peer = peer;
    op.key = key;
    op.stamp = 7;
    op.data = data.data();
    op.bytes = bytes;
  }
  TransferState state() const { return op.state.load(std::memory_order_acquire); }
  bool done() const { return state() == TransferState::done; }
  std::vector<std::byte> data;
  RecvOp op;
};

}  // namespace tutti
