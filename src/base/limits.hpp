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
inline constexpr std::size_t kMaxStoreBytes = std::size_t{8} << 30;  // keys and values together
inline constexpr std::size_t kMaxStoreFrameBytes = kMaxStoreValueBytes + (std::size_t{1} << 20);
inline constexpr std::size_t kMaxStoreFileBytes = std::size_t{16} << 30;  // log of a file store
// TCP store server. Waiting calls of one client; bytes held for all waiting calls; unsent replies
// after which a client is not read from, and after which it is dropped; partly received and unsent
// bytes of all clients together.
inline constexpr std::size_t kMaxStoreWaitsPerClient = 1024;
inline constexpr std::size_t kMaxStoreWaitBytes = std::size_t{1} << 30;
inline constexpr std::size_t kStoreBacklogPauseBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxStoreBacklogBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxStoreBufferedBytes = std::size_t{2} << 30;
inline constexpr std::chrono::seconds kHandshakeTimeout{10};

// Connections.
inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kMaxHelloBytes = 4096;
inline constexpr std::size_t kMaxPassedFds = 64;  // per message on a local socket

// Shared memory of one rank. The reserve is address space, not memory.
inline constexpr std::size_t kSegmentReserveBytes = std::size_t{4} << 30;
inline constexpr int kMaxLocalRanks = 1024;
inline constexpr std::size_t kMessageRingBytes = std::size_t{128} << 10;  // per pair and direction

// Messages between ranks.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 46;
inline constexpr std::size_t kMaxFaultTextBytes = 2048;
inline constexpr std::size_t kEagerBytes = std::size_t{16} << 10;       // larger messages announce
inline constexpr std::size_t kEagerCreditBytes = std::size_t{1} << 20;  // unread, per peer
inline constexpr std::size_t kEagerOverheadBytes =
    64;  // what an eager message costs beside its data
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;  // payload per frame
inline constexpr std::size_t kMaxAnnounced = 65536;  // announced and not yet moved, per peer
inline constexpr std::size_t kMaxQueuedReports =
    64;  // further faults and probes to a stuck peer are dropped
inline constexpr std::size_t kPollBytes = std::size_t{1}
                                          << 20;  // moved per link and poll, either way
inline constexpr std::size_t kMinRingBytes = 4096;
inline constexpr std::size_t kMaxRingBytes = std::size_t{1} << 30;
inline constexpr std::size_t kRingPieceBytes = std::size_t{32}
                                               << 10;  // posted at once in a long write

// Output of the ranks, forwarded by the launcher.
inline constexpr std::size_t kMaxLineBytes = std::size_t{256} << 10;  // longer lines are broken
inline constexpr std::size_t kMaxConsoleBacklogBytes = std::size_t{1} << 20;  // for a slow reader

// Waiting.
inline constexpr std::chrono::milliseconds kSleepSlice{100};  // then look at the peers
inline constexpr std::chrono::milliseconds kFirstProbe{200};  // then at doubling intervals
inline constexpr std::chrono::seconds kFirstStallReport{10};  // then at doubling intervals

}  // namespace tutti::limits
