// Fabric: what connects this rank to all others of its job, made once. Ranks of one host map each
// other's segments and know each other's bells; all others are reached over TCP. Groups take their
// teams and lanes from here.
//
// Same host means: the connection to the peer's abstract socket succeeded and its segment could be
// mapped and showed the expected mark; so network namespaces count as hosts. Failure means TCP.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "transport/connect.hpp"
#include "transport/segment.hpp"
#include "transport/team.hpp"
#include "transport/transport.hpp"
#include "transport/wait.hpp"

#include <tutti/group.hpp>
#include <tutti/store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tutti {

/// An epoll descriptor a thread sleeps on; leased, since each sleeper needs its own.
class Sleeper {
 public:
  explicit Sleeper(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  /// Returns at the next ring of the bell, readiness of a socket, or after `limit`.
  void sleep(Duration limit);

 private:
  UniqueFd epoll_;
};

class Fabric {
 public:
  /// Collective over the job. Throws Timeout naming the ranks that did not come, Unsupported, ...
  explicit Fabric(FabricOptions options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  int rank() const { return options_.rank; }
  int world_size() const { return options_.world_size; }
  Transport& transport() { return *transport_; }
  Segment& segment() { return segment_; }
  /// Whether `peer` shares memory with this rank (true for this rank itself).
  bool is_local(int peer) const {
    return peer == options_.rank || peers_[index(peer)].segment != nullptr;
  }
  /// First byte of the segment of a local rank.
  std::byte* base_of(int peer) const;
  /// Host number of every rank as this rank sees it: ranks with equal numbers share memory.
  const std::vector<int>& host_of() const { return host_of_; }
  PublishMode publish_mode() const { return publish_mode_; }
  /// More ranks on this host than CPUs they may use; equal on all ranks of the host.
  bool oversubscribed() const { return ranks_per_cpu_ > 1; }
  /// Ranks of this host for each CPU that they may use, rounded up; equal on all ranks of the host.
  int ranks_per_cpu() const { return ranks_per_cpu_; }
  const TuningTable& tuning() const { return tuning_; }
  const WaitPolicy& wait_policy() const { return wait_policy_; }

  void ring_bell(int peer);
  /// Wakes the sleepers of this process.
  void ring_own_bell();
  std::unique_ptr<Sleeper> lease_sleeper();
  void return_sleeper(std::unique_ptr<Sleeper> sleeper);

  /// Looks whether local peers live; a dead one is reported to the transport. Cheap enough for
  /// every slow look. Empty while `peer` lives.
  void look_at_peers();
  std::optional<Failure> failure(int peer) const { return transport_->failure(peer); }
  std::string describe(int peer) const;
  /// What this rank's segment takes now.
  MemoryUse memory() const;
  /// Why peers of this host, if any, are not reached through memory.
  const std::string& no_memory_reason(int peer) const { return peers_[index(peer)].reason; }

  /// After fork, in the child: closes what the child must not hold open. No locks are taken.
  void abandon();

 private:
  /// Rings the bell of one peer for its message link.
  struct PeerBell final : Waker {
    Fabric* fabric = nullptr;
    int peer = -1;
    void ring(std::uint32_t) override { fabric->ring_bell(peer); }
  };
  struct Peer {
    std::unique_ptr<Segment> segment{};
    PeerBell link_bell{};
    UniqueFd bell{};
    UniqueFd process{};    ///< pidfd; invalid where the PID namespaces differ
    UniqueFd keepalive{};  ///< the Unix socket, kept where there is no pidfd
    bool dead = false;
    std::string reason{};
  };
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  void adopt(FabricResult result);
  std::unique_ptr<Link> make_shm_link(int peer, const FabricPeer& made);

  FabricOptions options_;
  Segment segment_;
  std::vector<Peer> peers_;
  std::vector<int> host_of_;
  PublishMode publish_mode_ = PublishMode::exchange;
  int ranks_per_cpu_ = 1;
  TuningTable tuning_{};
  WaitPolicy wait_policy_{};
  UniqueFd bell_{};
  std::vector<int> sockets_{};  ///< of the links; a forked child closes them
  std::unique_ptr<Transport> transport_{};
  std::mutex sleepers_mutex_;
  std::vector<std::unique_ptr<Sleeper>> idle_sleepers_{};
  std::mutex look_mutex_;
};

}  // namespace tutti
