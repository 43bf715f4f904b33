// Every bound of the library, named. Sizes that come from a wire are checked against these before
// they are believed. docs/environment.md lists those a user can meet.
#pragma once

#include <chrono>
#include <cstddef>

namespace tutti::limits {

inline constexpr int kMaxWorldSize = 65536;

// Tensors. The bytes are those of the elements, and those that the strides span: far above any
// memory, and low enough that sums of two such numbers never overflow.
inline constexpr std::size_t kMaxDims = 64;
inline constexpr std::size_t kMaxTensorBytes = std::size_t{1} << 56;
inline constexpr std::size_t kMaxPrintedElements = 1000;  // longer tensors are abridged

// Stores.
inline constexpr std::size_t kMaxStoreKeyBytes = 4096;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxStoreKeysPerCall = 65536;
inline constexpr std::size_t kMaxStoreClients = 65536;

// Connections.
inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kMaxHelloBytes = 4096;
inline constexpr std::size_t kMaxPassedFds = 64;  // per message on a local socket

// Shared memory of one rank. The reserve is address space, not memory.
inline constexpr std::size_t kSegmentReserveBytes = std::size_t{4} << 30;
inline constexpr int kMaxLocalRanks = 1024;

// Messages between ranks.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 46;
inline constexpr std::size_t kMaxFaultTextBytes = 2048;

// Waiting.
inline constexpr std::chrono::milliseconds kSleepSlice{100};  // then look at the peers
inline constexpr std::chrono::seconds kFirstStallReport{10};  // then at doubling intervals

}  // namespace tutti::limits
