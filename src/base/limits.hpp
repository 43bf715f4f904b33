// Every bound of the library, named. Sizes that come from a wire are checked against these before
// they are believed. docs/environment.md lists those a user can meet.
#pragma once

#include <chrono>
#include <cstddef>

namespace tutti::limits {

inline constexpr int kMaxWorldSize = 65536;
inline constexpr std::size_t kMaxDims = 64;

// Stores.
inline constexpr std::size_t kMaxStoreKeyBytes = 4096;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxStoreKeysPerCall = 65536;
inline constexpr std::size_t kMaxStoreClients = 65536;

// Connections.
inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kMaxHelloBytes = 4096;

// Messages between ranks.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 46;
inline constexpr std::size_t kMaxFaultTextBytes = 2048;

// Waiting.
inline constexpr std::chrono::milliseconds kSleepSlice{100};  // then look at the peers
inline constexpr std::chrono::seconds kFirstStallReport{10};  // then at doubling intervals

}  // namespace tutti::limits
