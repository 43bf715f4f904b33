// What all stores have in common besides the data: limits on keys and values, the wording of their
// errors, and the time-out setting.
#pragma once

#include "base/clock.hpp"

#include <tutti/store.hpp>

#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// InvalidArgument if over limits::kMaxStoreKeyBytes, ...ValueBytes, ...KeysPerCall.
void check_store_key(const std::string& key);
void check_store_value(const std::string& key, std::string_view value);
void check_store_keys(std::span<const std::string> keys);
void check_store_pairs(std::span<const std::string> keys, std::span<const std::string> values);
void check_barrier_world_size(const std::string& key, int world_size);

/// "keys 'a', 'b' and 3 more"; long keys are cut.
std::string quoted_keys(std::span<const std::string> keys);
/// "5.0 s".
std::string seconds_text(Duration duration);
/// "keys 'a' still missing after 5.0 s".
std::string missing_text(std::span<const std::string> missing, Duration waited);
/// "barrier 'k': 3 of 4 callers joined within 5.0 s".
std::string barrier_text(const std::string& key, int joined, int world_size, Duration waited);
/// "barrier 'k': another caller gave world size 3, this one 4; ...".
std::string barrier_mismatch_text(const std::string& key, int theirs, int ours);

/// A time-out within [0, one year], so that it can be added to a clock.
Store::Millis bounded_timeout(Store::Millis timeout);
Deadline store_deadline(Store::Millis timeout);

/// The time-out of a handle; any thread may read or set it.
class TimeoutSetting {
 public:
  explicit TimeoutSetting(Store::Millis timeout) : ms_(checked(timeout)) {}
  void set(Store::Millis timeout) { ms_.store(checked(timeout), std::memory_order_relaxed); }
  Store::Millis get() const { return Store::Millis(ms_.load(std::memory_order_relaxed)); }

 private:
  static Store::Millis::rep checked(Store::Millis timeout);
  std::atomic<Store::Millis::rep> ms_;  // a lone number: nothing is published with it
};

}  // namespace tutti
