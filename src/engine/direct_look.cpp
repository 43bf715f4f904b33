// What a blocked DirectRun can tell about the others: who is missing, who disagrees, who is kept
// from coming.
#include "engine/direct_run.hpp"

#include <algorithm>
#include <cstddef>

namespace tutti {

bool DirectRun::holds_up_others() const {
  team_->note_cpu();
  if (!plan_->symmetric) {
    return blocked_.seat >= 0 && team_->shares_cpu(blocked_.seat);  // the others have no part in it
  }
  // The place of the awaited number in its member's area; the last arrival has none of its own.
  const std::byte* base =
      reinterpret_cast<const std::byte*>(&team_->area(std::max(blocked_.seat, 0)));
  const std::ptrdiff_t offset = blocked_.seat < 0
                                    ? reinterpret_cast<std::byte*>(&call_slot(0).epoch) - base
                                    : reinterpret_cast<std::byte*>(blocked_.epoch) - base;
  for (int k = 0; k < seat_.size; ++k) {
    if (team_->shares_cpu(k)) {
      const auto& theirs =
          *reinterpret_cast<Epoch*>(reinterpret_cast<std::byte*>(&team_->area(k)) + offset);
      if (!reached(theirs, blocked_.target)) {
        return true;
      }
    }
  }
  return false;
}

int DirectRun::disagreeing_seat(std::uint64_t& theirs) const {
  for (int k = 0; entered_ && k < seat_.size; ++k) {
    CallSlot& other = call_slot(k);
    if (k != seat_.rank && reached(other.epoch, state_->call) && other.history != call_->history) {
      theirs = other.fingerprint;
      return k;
    }
  }
  return -1;
}

std::optional<DirectRun::EarlierCall> DirectRun::earlier_difference(int seat) const {
  for (std::uint32_t back = 1; back < kCallSlots; ++back) {
    const std::uint32_t number = state_->call - back;
    const CallSlot& mine = team_->own().calls[number % kCallSlots];
    const CallSlot& theirs = team_->area(seat).calls[number % kCallSlots];
    if (mine.epoch.value.load(std::memory_order_acquire) == number &&
        theirs.epoch.value.load(std::memory_order_acquire) == number &&
        mine.fingerprint != theirs.fingerprint) {
      return EarlierCall{.back = back, .mine = mine.fingerprint, .theirs = theirs.fingerprint};
    }
  }
  return std::nullopt;
}

std::vector<int> DirectRun::missing_seats() const {
  std::vector<int> missing;
  for (int k = 0; entered_ && k < seat_.size; ++k) {
    if (k != seat_.rank && !reached(call_slot(k).epoch, state_->call)) {
      missing.push_back(k);
    }
  }
  return missing;
}

}  // namespace tutti
