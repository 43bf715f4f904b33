// The arrival protocol of DirectRun: ranks count themselves in, the last one reduces for all.
#include "base/ensure.hpp"
#include "engine/direct_run.hpp"

#include <cstring>

namespace tutti {

/// Counts in. The counter holds, beside the number of arrivals, the sum of all histories, so
/// that the last one sees a disagreement before it touches the data.
bool DirectRun::arrive() {
  if (!arrived_) {
    const std::uint64_t mark = (call_->history & ~std::uint64_t{0xffffffff}) | 1;
    state_->arrivals += mark * static_cast<std::uint64_t>(seat_.size);
    arrived_ = true;
    // acq_rel: the last arrival's read of the counter makes all the slots of the others visible.
    const std::uint64_t now =
        team_->area(0).arrivals.fetch_add(mark, std::memory_order_acq_rel) + mark;
    if (static_cast<std::uint32_t>(now) == static_cast<std::uint32_t>(state_->arrivals)) {
      if (now == state_->arrivals) {
        return finish_arrival_as_last();
      }
      return find_disagreement();
    }
  }
  return take_result();
}

bool DirectRun::finish_arrival_as_last() {
  CallSlot& result = team_->area(0).results[state_->call % kCallSlots];
  sources_.resize(static_cast<std::size_t>(seat_.size));
  factors_.resize(sources_.size());
  for (int k = 0; k < seat_.size; ++k) {
    const auto index = static_cast<std::size_t>(k);
    sources_[index] = k == seat_.rank ? user(in_, 0, 0) : slot(k, 0, 0);
    if (prefix_ != 0) {
      std::memcpy(&factors_[index], call_slot(k).data, sizeof(std::complex<double>));
    }
  }
  kernel_({.sources = sources_.data(),
           .count = seat_.size,
           .out = user(out_, 0, 0),
           .also = result.data,
           .elements = total_ / element_bytes_,
           .divisor = call_->divisor,
           .factors = prefix_ != 0 ? factors_.data() : nullptr});
  result.history = call_->history;
  team_->post(result.epoch, state_->call);
  return true;
}

/// Somebody differs: all have announced their call before they arrived.
bool DirectRun::find_disagreement() {
  for (int k = 0; k < seat_.size; ++k) {
    if (!meet(k)) {
      return false;
    }
  }
  ensure(false, "whoever spoils the sum of histories has announced another call");
  return false;
}

bool DirectRun::take_result() {
  CallSlot& result = team_->area(0).results[state_->call % kCallSlots];
  if (!await(result.epoch, state_->call, -1)) {
    return false;
  }
  if (result.history != call_->history) {
    return find_disagreement();
  }
  if (total_ != 0) {
    std::memcpy(user(out_, 0, 0), result.data, total_);
  }
  return true;
}

}  // namespace tutti
