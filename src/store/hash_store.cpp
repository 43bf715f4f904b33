// HashStore: one table, one mutex, one condition variable. Handles made by clone share them.
#include "base/limits.hpp"
#include "store/rules.hpp"
#include "store/table.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <type_traits>

namespace tutti {
namespace {

/// One round; its waiters share it, and the map forgets it when the last caller joined.
struct Barrier {
  int world_size = 0;
  int joined = 0;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  StoreTable table{limits::kMaxStoreBytes};                  // under mutex
  std::map<std::string, std::shared_ptr<Barrier>> barriers;  // under mutex
};

class HashStore final : public Store {
 public:
  HashStore(std::shared_ptr<State> state, Millis timeout)
      : state_(std::move(state)), timeout_(timeout) {}

  void set(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    change([&](StoreTable& table) { table.set(key, value); });
  }

  std::string get(const std::string& key) override {
    const std::unique_lock lock = locked_once_all_exist("get", {&key, 1}, timeout());
    return *state_->table.find(key);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    check_store_key(key);
    return change([&](StoreTable& table) { return table.add(key, amount); });
  }

  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired) override {
    check_store_value(key, expected);
    check_store_value(key, desired);
    return change([&](StoreTable& table) { return table.compare_set(key, expected, desired); });
  }

  using Store::wait;
  void wait(std::span<const std::string> keys, Millis timeout) override {
    (void)locked_once_all_exist("wait", keys, timeout);
  }

  bool check(std::span<const std::string> keys) override {
    check_store_keys(keys);
    const std::lock_guard lock(state_->mutex);
    return state_->table.missing_of(keys).empty();
  }

  bool delete_key(const std::string& key) override {
    check_store_key(key);
    const std::lock_guard lock(state_->mutex);
    return state_->table.erase(key);
  }

  std::int64_t num_keys() override {
    const std::lock_guard lock(state_->mutex);
    return static_cast<std::int64_t>(state_->table.count());
  }

  void append(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    change([&](StoreTable& table) { table.append(key, value); });
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    const std::unique_lock lock = locked_once_all_exist("multi_get", keys, timeout());
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) {
      values.push_back(*state_->table.find(key));
    }
    return values;
  }

  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    check_store_pairs(keys, values);
    change([&](StoreTable& table) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        table.set(keys[i], values[i]);
      }
    });
  }

  void queue_push(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    change([&](StoreTable& table) { table.push(key, value); });
  }

  std::string queue_pop(const std::string& key) override {
    check_store_key(key);
    StoreTable::Value value;
    std::unique_lock lock(state_->mutex);
    const Millis limit = timeout();
    const bool found = state_->changed.wait_for(lock, limit, [&] {
      value = state_->table.pop(key);
      return value != nullptr;
    });
    if (!found) {
      fail("queue_pop", fmt::format("queue '{}' still empty after {}", key, seconds_text(limit)));
    }
    return *value;
  }

  std::int64_t queue_len(const std::string& key) override {
    check_store_key(key);
    const std::lock_guard lock(state_->mutex);
    return static_cast<std::int64_t>(state_->table.length(key));
  }

  std::vector<std::string> list_keys(std::string_view prefix) override {
    const std::lock_guard lock(state_->mutex);
    return state_->table.keys_with(prefix);
  }

  void barrier(const std::string& key, int world_size, Millis timeout) override {
    check_barrier_world_size(key, world_size);
    std::unique_lock lock(state_->mutex);
    std::shared_ptr<Barrier>& entry = state_->barriers[key];
    if (entry == nullptr) {
      entry = std::make_shared<Barrier>(Barrier{.world_size = world_size, .joined = 0});
    }
    const std::shared_ptr<Barrier> round = entry;
    if (round->world_size != world_size) {
      throw Mismatch("store " + barrier_mismatch_text(key, round->world_size, world_size));
    }
    if (++round->joined == world_size) {
      state_->barriers.erase(key);
      state_->changed.notify_all();
      return;
    }
    const Millis limit = bounded_timeout(timeout);
    const auto complete = [&] { return round->joined == world_size; };
    if (!state_->changed.wait_for(lock, limit, complete)) {
      const int joined = round->joined--;
      if (round->joined == 0) {
        state_->barriers.erase(key);
      }
      fail("barrier", barrier_text(key, joined, world_size, limit));
    }
  }

  std::shared_ptr<Store> clone() override { return std::make_shared<HashStore>(state_, timeout()); }
  void set_timeout(Millis timeout) override { timeout_.set(timeout); }
  Millis timeout() const override { return timeout_.get(); }
  std::string describe() const override { return "hash://"; }

 private:
  [[noreturn]] void fail(std::string_view operation, const std::string& what) const {
    throw Timeout(fmt::format("store {} on {}: {}", operation, describe(), what));
  }

  template <class Change>
  std::invoke_result_t<Change, StoreTable&> change(Change apply) {
    const std::lock_guard lock(state_->mutex);
    state_->changed.notify_all();  // they wake when the lock is free
    return apply(state_->table);
  }

  std::unique_lock<std::mutex> locked_once_all_exist(std::string_view operation,
                                                     std::span<const std::string> keys,
                                                     Millis timeout) {
    check_store_keys(keys);
    std::unique_lock lock(state_->mutex);
    const Millis limit = bounded_timeout(timeout);
    const auto all_exist = [&] { return state_->table.missing_of(keys).empty(); };
    if (!state_->changed.wait_for(lock, limit, all_exist)) {
      fail(operation, missing_text(state_->table.missing_of(keys), limit));
    }
    return lock;
  }

  std::shared_ptr<State> state_;
  TimeoutSetting timeout_;
};

}  // namespace

std::shared_ptr<Store> make_hash_store() {
  return std::make_shared<HashStore>(std::make_shared<State>(), Store::kDefaultTimeout);
}

}  // namespace tutti
