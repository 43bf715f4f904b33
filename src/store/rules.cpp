#include "store/rules.hpp"

#include "base/limits.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kNamedKeys = 8;
constexpr std::size_t kShownKeyBytes = 120;
constexpr Store::Millis kLongestTimeout = std::chrono::hours(24 * 365);

std::string shown(const std::string& key) {
  return key.size() <= kShownKeyBytes ? key : key.substr(0, kShownKeyBytes) + "...";
}

}  // namespace

void check_store_key(const std::string& key) {
  if (key.size() > limits::kMaxStoreKeyBytes) {
    throw InvalidArgument(fmt::format("store key '{}' has {} bytes, at most {} are allowed",
                                      shown(key), key.size(), limits::kMaxStoreKeyBytes));
  }
}

void check_store_value(const std::string& key, std::string_view value) {
  check_store_key(key);
  if (value.size() > limits::kMaxStoreValueBytes) {
    throw InvalidArgument(
        fmt::format("store value for key '{}' has {} bytes, at most {} are allowed; split it",
                    shown(key), value.size(), limits::kMaxStoreValueBytes));
  }
}

void check_store_keys(std::span<const std::string> keys) {
  if (keys.size() > limits::kMaxStoreKeysPerCall) {
    throw InvalidArgument(fmt::format("store call with {} keys, at most {} are allowed; split it",
                                      keys.size(), limits::kMaxStoreKeysPerCall));
  }
  for (const std::string& key : keys) {
    check_store_key(key);
  }
}

void check_store_pairs(std::span<const std::string> keys, std::span<const std::string> values) {
  if (keys.size() != values.size()) {
    throw InvalidArgument(
        fmt::format("multi_set with {} keys and {} values; pass one value for each key",
                    keys.size(), values.size()));
  }
  check_store_keys(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_store_value(keys[i], values[i]);
  }
}

void check_barrier_world_size(const std::string& key, int world_size) {
  check_store_key(key);
  if (world_size < 1 || world_size > limits::kMaxWorldSize) {
    throw InvalidArgument(fmt::format("store barrier '{}': world size {}, expected 1 to {}",
                                      shown(key), world_size, limits::kMaxWorldSize));
  }
}

std::string quoted_keys(std::span<const std::string> keys) {
  std::string text = keys.size() == 1 ? "key " : "keys ";
  const std::size_t named = std::min(keys.size(), kNamedKeys);
  for (std::size_t i = 0; i < named; ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", shown(keys[i]));
  }
  if (keys.size() > named) {
    text += fmt::format(" and {} more", keys.size() - named);
  }
  return text;
}

std::string seconds_text(Duration duration) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(duration).count());
}

std::string missing_text(std::span<const std::string> missing, Duration waited) {
  return fmt::format("{} still missing after {}", quoted_keys(missing), seconds_text(waited));
}

std::string barrier_text(const std::string& key, int joined, int world_size, Duration waited) {
  return fmt::format("barrier '{}': {} of {} callers joined within {}", shown(key), joined,
                     world_size, seconds_text(waited));
}

std::string barrier_mismatch_text(const std::string& key, int theirs, int ours) {
  return fmt::format(
      "barrier '{}': another caller gave world size {}, this one {}; all must give the same",
      shown(key), theirs, ours);
}

Store::Millis bounded_timeout(Store::Millis timeout) {
  return std::clamp(timeout, Store::Millis::zero(), kLongestTimeout);
}

Deadline store_deadline(Store::Millis timeout) { return Deadline::after(bounded_timeout(timeout)); }

Store::Millis::rep TimeoutSetting::checked(Store::Millis timeout) {
  if (timeout <= Store::Millis::zero()) {
    throw InvalidArgument(
        fmt::format("store time-out of {} ms, expected more than 0", timeout.count()));
  }
  return bounded_timeout(timeout).count();
}

}  // namespace tutti
