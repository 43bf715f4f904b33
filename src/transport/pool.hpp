// Pools of the message layer: records and small buffers that are used again instead of allocated
// per message. Not thread-safe; each belongs to one channel or table and its lock.
#pragma once

#include "base/limits.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace tutti {

/// Records of one type; addresses stay valid as long as the pool lives.
template <typename T>
class Pool {
 public:
  /// A record with default values.
  T& get() {
    if (free_.empty()) {
      T& made = all_.emplace_back();
      if (free_.capacity() < all_.size()) {
        free_.reserve(2 * all_.size());  // now, so that putting back never allocates
      }
      return made;
    }
    T& record = *free_.back();
    free_.pop_back();
    record = T{};
    return record;
  }
  void put(T& record) { free_.push_back(&record); }
  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

/// Buffers for eager messages, at most limits::kEagerBytes each, in three sizes. What is kept for
/// later is bounded per size by kKeptBytes.
class BufferPool {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{256} << 10;

  std::unique_ptr<std::byte[]> get(std::size_t bytes) {
    const std::size_t size = size_index(bytes);
    if (free_[size].empty()) {
      return std::make_unique_for_overwrite<std::byte[]>(kSizes[size]);
    }
    std::unique_ptr<std::byte[]> buffer = std::move(free_[size].back());
    free_[size].pop_back();
    return buffer;
  }
  void put(std::unique_ptr<std::byte[]> buffer, std::size_t bytes) {
    const std::size_t size = size_index(bytes);
    if ((free_[size].size() + 1) * kSizes[size] <= kKeptBytes) {
      free_[size].push_back(std::move(buffer));
    }
  }

 private:
  static constexpr std::array<std::size_t, 3> kSizes{256, 2048, limits::kEagerBytes};
  static std::size_t size_index(std::size_t bytes) {
    return bytes <= kSizes[0] ? 0 : bytes <= kSizes[1] ? 1 : 2;
  }
  std::array<std::vector<std::unique_ptr<std::byte[]>>, kSizes.size()> free_;
};

/// Records by `id`, chained through `chain`, both members of T. Does not own them.
template <typename T>
class IdTable {
 public:
  IdTable() : slots_(64, nullptr) {}
  T* find(std::uint64_t id) const {
    T* record = slots_[slot(id)];
    while (record != nullptr && record->id != id) {
      record = record->chain;
    }
    return record;
  }
  void insert(T& record) {
    if (size_ >= slots_.size()) {
      grow();
    }
    ++size_;
    link(record);
  }
  void erase(T& record) {
    T** at = &slots_[slot(record.id)];
    while (*at != &record) {
      at = &(*at)->chain;
    }
    *at = record.chain;
    record.chain = nullptr;
    --size_;
  }
  std::size_t size() const { return size_; }
  /// Calls `visit(record)`, which may erase that record.
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      for (T* record = slots_[i]; record != nullptr;) {
        T* const next = record->chain;
        visit(*record);
        record = next;
      }
    }
  }

 private:
  // Ids are counted up by the sender, so their low bits spread evenly.
  std::size_t slot(std::uint64_t id) const { return id & (slots_.size() - 1); }
  void link(T& record) {
    T*& head = slots_[slot(record.id)];
    record.chain = head;
    head = &record;
  }
  void grow() {
    std::vector<T*> old(slots_.size() * 2, nullptr);
    old.swap(slots_);
    for (T* record : old) {
      while (record != nullptr) {
        T* const next = record->chain;
        link(*record);
        record = next;
      }
    }
  }

  std::vector<T*> slots_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace tutti
