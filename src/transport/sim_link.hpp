// SimNetwork: links without a network. It owns a virtual clock and every byte under way; delay,
// bandwidth, short reads and writes, stalls and crashes come from one seed, so that a run can be
// repeated exactly. One thread only. Links keep the network's state alive, not the network.
//
// A test polls all its transports until nothing moves, then calls advance(): the clock jumps to the
// next event. When there is none, nothing will ever happen any more.
#pragma once

#include "base/clock.hpp"
#include "transport/link.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti {

struct SimLinkOptions {
  Duration delay{std::chrono::microseconds(20)};
  Duration jitter{};  ///< added to the delay, at random; order is kept
  double bytes_per_second = 1e9;
  std::size_t window_bytes = std::size_t{64} << 10;  ///< written and not yet read
  unsigned short_percent = 0;                        ///< reads and writes that take only a part
  unsigned stall_percent = 0;  ///< writes that find the link stuck for a while
  Duration stall{std::chrono::microseconds(100)};
};

class SimNetwork final : public Clock {
 public:
  explicit SimNetwork(std::uint64_t seed);
  ~SimNetwork() override;

  struct Nodes {
    int first = 0;
    int second = 1;
  };
  struct Ends {
    std::unique_ptr<Link> first;   ///< held by the first node
    std::unique_ptr<Link> second;  ///< held by the second
  };
  Ends connect(Nodes nodes, const SimLinkOptions& options = {});

  /// From `at` on the node reads and writes nothing; what it had sent arrives in part, then its
  /// peers see a failure.
  void crash_at(int node, TimePoint at);
  TimePoint now() const override;
  /// Moves the clock to the next event; false if there is none.
  bool advance();
  /// Over everything that was read and written, and when.
  std::uint64_t trace_hash() const;

 private:
  struct State;
  class End;
  std::shared_ptr<State> state_;
};

}  // namespace tutti
