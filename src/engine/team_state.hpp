// What a rank remembers about its team between calls: how far everybody is, and which slots of its
// own are still being read. Lane lock.
#pragma once

#include "engine/slot_store.hpp"
#include "transport/team.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

inline constexpr std::size_t kMaxRingSlots = 64;

/// Who still has to leave a ring slot after its last use, and the progress that proves it.
struct SlotUse {
  static constexpr int kEveryone = -1;
  std::uint32_t progress = 0;
  int reader = kEveryone;  ///< a seat, or all others
};

struct TeamState {
  explicit TeamState(int size) : seen(static_cast<std::size_t>(size), 0) {}

  std::uint32_t call = 0;      ///< number of the last call entered
  std::uint32_t safe = 0;      ///< every member is known to have finished this call
  std::uint32_t base = 0;      ///< posts made when the last staged call ended, equal on all ranks
  std::uint32_t cursor = 0;    ///< ring slots used so far; segment t of a call uses cursor + t
  std::size_t slot_bytes = 0;  ///< of the ring's present division
  std::uint64_t arrivals = 0;  ///< what the arrival counter must be when all have arrived
  SlotStore slot_store{};      ///< how this rank writes into its ring
  std::vector<std::uint32_t> seen;                ///< progress of each member, as last read
  std::array<SlotUse, kMaxRingSlots> last_use{};  ///< of each ring slot
};

}  // namespace tutti
