// How the ranks of a job find each other, once, when the job starts. Three exchanges through the
// store:
//   card     what a rank is: token, process, CPUs, abstract socket name, tuning table
//   reached  which lower ranks' abstract sockets it could connect to
//   mapped   with which of those both sides mapped the other's segment
// After the last one every rank knows, alike, which pairs share memory; the others connect over
// TCP, at the address under `tcp`. A rank that fails publishes the cause under `failed`, so that
// nobody waits for it. docs/wire.md, section "Start", has the bytes.
#pragma once

#include "base/unique_fd.hpp"
#include "plan/tuning.hpp"
#include "transport/segment.hpp"
#include "transport/transport.hpp"

#include <tutti/store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

struct FabricOptions {
  std::shared_ptr<Store> store{};  ///< already prefixed for this job and incarnation
  int rank = 0;
  int world_size = 1;
  std::string secret{};
  std::string transport{};      ///< auto, shm or tcp
  std::string host_id{};        ///< TUTTI_HOST_ID: ranks of different ids never share memory
  std::string interfaces{};     ///< TUTTI_SOCKET_IFNAME
  std::string tuning_file{};    ///< TUTTI_TUNING; empty: the built-in table
  std::string local_address{};  ///< address of a connection that is known to work; may be empty
  std::chrono::milliseconds timeout{};
  Transport::FaultHandler on_fault{};
};

/// What connecting to one peer brought.
struct FabricPeer {
  std::unique_ptr<Segment> segment{};  ///< if the peer shares memory
  UniqueFd bell{};                     ///< its bell
  UniqueFd socket{};                   ///< the Unix socket of the handshake
  int pid = 0;                         ///< 0: not visible from this PID namespace
  std::size_t ring_to_peer = 0;        ///< offset in our segment
  std::size_t ring_from_peer = 0;      ///< offset in theirs
  UniqueFd tcp{};                      ///< else
  std::string address{};               ///< of the peer, for messages
  std::string reason{};                ///< why no memory is shared
};

struct FabricResult {
  std::vector<FabricPeer> peers{};
  std::vector<int> host_of{};
  bool asymmetric = false;  ///< every rank registered for membarrier
  int ranks_per_cpu = 1;    ///< of this rank's host, rounded up
  TuningTable tuning{};     ///< equal on all ranks
};

/// Collective. Throws Timeout naming the ranks that did not come, PeerLost with the cause if one
/// came and cannot join, Unsupported if transport is "shm"
/// and a pair cannot share memory, Mismatch if tuning tables differ.
FabricResult connect_fabric(const FabricOptions& options, Segment& segment, int bell);

}  // namespace tutti
