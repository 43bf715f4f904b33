// What a call into the message layer brought about, collected while locks are held and acted upon
// after they are released.
#pragma once

#include "base/failure.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

struct Events {
  struct Fault {
    int peer = -1;
    std::uint64_t group = 0;
    Failure failure{};
  };
  struct Probe {
    int peer = -1;
    Transport::Probe probe{};
  };
  const void* own = nullptr;  ///< the op of the call itself; not counted
  bool moved = false;         ///< bytes went in or out
  std::size_t completed = 0;  ///< other ops that reached a final state
  bool stuck = false;         ///< a link without descriptor filled up: sleepers must arm for room
  std::vector<Fault> faults{};
  std::vector<Probe> probes{};
  std::vector<MessageKey> unsettled{};  ///< keys for MatchTable::unsettled()
};

/// Ends an op. The last touch: whoever sees the state may destroy the op at once.
template <typename Op>
void complete(Op& op, TransferState state, Events& events) {
  events.completed += &op == events.own ? 0 : 1;
  // release: pairs with the acquire load of whoever waits for the op; its fields and bytes are
  // visible then.
  op.state.store(state, std::memory_order_release);
}

/// Whether a message fits the receive it met; if not, the receive ends as a mismatch.
inline bool admit(RecvOp& op, std::uint64_t stamp, std::uint64_t bytes, Events& events) {
  op.their_stamp = stamp;
  op.their_bytes = bytes;
  if (op.stamp == stamp && op.bytes == bytes) {
    return true;
  }
  complete(op, TransferState::mismatch, events);
  return false;
}

}  // namespace tutti
