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
  // The awaited number and the same one of others lie at one place of their areas. Of the arrival
  // protocol's result there is one for all: to come as far means to have called.
  const int seat = std::max(blocked_.seat, 0);
  const Epoch* awaited = blocked_.seat < 0 ? &call_slot(seat).epoch : blocked_.epoch;
  const auto start_of = [this](int k) { return reinterpret_cast<std::byte*>(&team_->area(k)); };
  const std::ptrdiff_t offset = reinterpret_cast<const std::byte*>(awaited) - start_of(seat);
  for (int k = 0; k < seat_.size; ++k) {
    if (team_->shares_cpu(k) &&
        !reached(*reinterpret_cast<const Epoch*>(start_of(k) + offset), blocked_.target)) {
      return true;
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
