#include "store/table.hpp"

#include "base/limits.hpp"
#include "store/rules.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace tutti {
namespace {

constexpr std::size_t kEntryBytes = 96;  // what a map node and a string cost, roughly

std::size_t cost_of(const std::string& key, std::size_t value_bytes) {
  return key.size() + value_bytes + kEntryBytes;
}

}  // namespace

void StoreTable::charge(std::size_t bytes) {
  if (bytes > max_bytes_ - bytes_) {
    throw StoreError(fmt::format("the store is full: {} of {} bytes used, {} more asked for",
                                 bytes_, max_bytes_, bytes));
  }
  bytes_ += bytes;
}

void StoreTable::set(const std::string& key, std::string_view value) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    charge(cost_of(key, value.size()));
    values_.emplace(key, std::make_shared<std::string>(value));
    return;
  }
  Value& held = found->second;
  if (value.size() > held->size()) {
    charge(value.size() - held->size());
  } else {
    bytes_ -= held->size() - value.size();
  }
  if (held.use_count() == 1) {
    held->assign(value);
  } else {
    held = std::make_shared<std::string>(value);
  }
}

StoreTable::Value StoreTable::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

std::int64_t StoreTable::sum_with(const std::string& key, std::int64_t amount) const {
  std::int64_t current = 0;
  const auto found = values_.find(key);
  if (found != values_.end()) {
    const std::string& text = *found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), current);
    if (error != std::errc{} || end != text.data() + text.size()) {
      throw InvalidArgument(
          fmt::format("cannot add to {}: its value of {} bytes is not a 64-bit integer",
                      quoted_keys({&key, 1}), text.size()));
    }
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(current, amount, &sum)) {
    throw InvalidArgument(fmt::format("cannot add {} to {} under {}: the sum exceeds 64 bits",
                                      amount, current, quoted_keys({&key, 1})));
  }
  return sum;
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t amount) {
  const std::int64_t sum = sum_with(key, amount);
  set(key, fmt::format_int(sum).c_str());
  return sum;
}

std::string StoreTable::compare_set(const std::string& key, std::string_view expected,
                                    std::string_view desired) {
  const auto found = values_.find(key);
  const bool equal = found == values_.end() ? expected.empty() : *found->second == expected;
  if (equal) {
    set(key, desired);
    return std::string(desired);
  }
  return found == values_.end() ? std::string(expected) : *found->second;
}

bool StoreTable::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return false;
  }
  bytes_ -= cost_of(key, found->second->size());
  values_.erase(found);
  return true;
}

void StoreTable::check_append(const std::string& key, std::string_view value) const {
  const auto found = values_.find(key);
  const std::size_t held = found == values_.end() ? 0 : found->second->size();
  if (value.size() > limits::kMaxStoreValueBytes - held) {
    throw InvalidArgument(
        fmt::format("cannot append {} bytes to the {} bytes under {}: at most {} are allowed",
                    value.size(), held, quoted_keys({&key, 1}), limits::kMaxStoreValueBytes));
  }
}

void StoreTable::append(const std::string& key, std::string_view value) {
  check_append(key, value);
  const auto found = values_.find(key);
  if (found == values_.end()) {
    set(key, value);
    return;
  }
  charge(value.size());
  Value& held = found->second;
  if (held.use_count() > 1) {
    held = std::make_shared<std::string>(*held);
  }
  held->append(value);
}

std::vector<std::string> StoreTable::keys_with(std::string_view prefix) const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) {
    if (key.starts_with(prefix)) {
      keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<std::string> StoreTable::missing_of(std::span<const std::string> keys) const {
  std::vector<std::string> missing;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
               [this](const std::string& key) { return !has(key); });
  return missing;
}

void StoreTable::push(const std::string& queue, std::string_view value) {
  charge(cost_of(queue, value.size()));
  queues_[queue].push_back(std::make_shared<std::string>(value));
}

StoreTable::Value StoreTable::pop(const std::string& queue) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) {
    return nullptr;
  }
  Value value = std::move(found->second.front());
  found->second.pop_front();
  bytes_ -= cost_of(queue, value->size());
  if (found->second.empty()) {
    queues_.erase(found);
  }
  return value;
}

StoreTable::Value StoreTable::front(const std::string& queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? nullptr : found->second.front();
}

std::size_t StoreTable::length(const std::string& queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.size();
}

}  // namespace tutti
