// The data of a store: plain values and queues, in memory, without locks, waiting or I/O. HashStore
// guards one by a mutex, the TCP server owns one, FileStore rebuilds one from its log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti {

class StoreTable {
 public:
  /// Values are shared so that a reply can refer to one that is replaced meanwhile. Only the table
  /// writes through it, and only while nobody else holds it.
  using Value = std::shared_ptr<std::string>;

  /// Keys and values together may take `max_bytes`; a call beyond that throws StoreError.
  explicit StoreTable(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void set(const std::string& key, std::string_view value);
  /// Null if absent.
  Value find(const std::string& key) const;
  bool has(const std::string& key) const { return values_.contains(key); }
  /// InvalidArgument if the value is no integer or the sum overflows.
  std::int64_t add(const std::string& key, std::int64_t amount);
  /// The sum that `add` would store.
  std::int64_t sum_with(const std::string& key, std::int64_t amount) const;
  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired);
  bool erase(const std::string& key);
  /// InvalidArgument if the value would exceed limits::kMaxStoreValueBytes.
  void append(const std::string& key, std::string_view value);
  /// What `append` refuses, without doing it.
  void check_append(const std::string& key, std::string_view value) const;
  std::size_t count() const { return values_.size(); }
  std::vector<std::string> keys_with(std::string_view prefix) const;
  std::vector<std::string> missing_of(std::span<const std::string> keys) const;

  void push(const std::string& queue, std::string_view value);
  /// Null if the queue is empty.
  Value pop(const std::string& queue);
  /// What `pop` would take; null if the queue is empty.
  Value front(const std::string& queue) const;
  std::size_t length(const std::string& queue) const;

 private:
  void charge(std::size_t bytes);

  std::unordered_map<std::string, Value> values_{};
  std::unordered_map<std::string, std::deque<Value>> queues_{};
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
};

}  // namespace tutti
