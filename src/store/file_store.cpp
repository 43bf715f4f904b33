// FileStore: the store's methods over a FileState. Those that change something lock the file, those
// that wait look at it whenever it changes.
#include "base/limits.hpp"
#include "store/file_state.hpp"
#include "store/rules.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <fmt/format.h>

namespace tutti {
namespace {

class FileStore final : public Store {
 public:
  FileStore(std::shared_ptr<FileState> state, Millis timeout)
      : state_(std::move(state)), timeout_(timeout) {}

  void set(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    locked([&] { state_->set(key, value); });
  }

  std::string get(const std::string& key) override {
    return std::move(values_once_all_exist("get", {&key, 1}).front());
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    check_store_key(key);
    return locked([&] {
      const std::int64_t sum = state_->table().sum_with(key, amount);
      state_->set(key, fmt::format_int(sum).c_str());
      return sum;
    });
  }

  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired) override {
    check_store_value(key, expected);
    check_store_value(key, desired);
    return locked([&]() -> std::string {
      const StoreTable::Value held = state_->table().find(key);
      if (held == nullptr ? expected.empty() : *held == expected) {
        state_->set(key, desired);
        return std::string(desired);
      }
      return held == nullptr ? std::string(expected) : *held;
    });
  }

  using Store::wait;
  void wait(std::span<const std::string> keys, Millis timeout) override {
    check_store_keys(keys);
    const auto all_exist = [&] { return state_->table().missing_of(keys).empty(); };
    if (!state_->wait_until(store_deadline(timeout), all_exist)) {
      fail_missing("wait", keys, timeout);
    }
  }

  bool check(std::span<const std::string> keys) override {
    check_store_keys(keys);
    return state_->current([&] { return state_->table().missing_of(keys).empty(); });
  }

  bool delete_key(const std::string& key) override {
    check_store_key(key);
    return locked([&] {
      if (!state_->table().has(key)) {
        return false;
      }
      state_->erase(key);
      return true;
    });
  }

  std::int64_t num_keys() override {
    return state_->current([&] { return static_cast<std::int64_t>(state_->table().count()); });
  }

  void append(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    locked([&] { state_->append(key, value); });
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    return values_once_all_exist("multi_get", keys);
  }

  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    check_store_pairs(keys, values);
    locked([&] {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        state_->set(keys[i], values[i]);
      }
    });
  }

  void queue_push(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    locked([&] { state_->push(key, value); });
  }

  std::string queue_pop(const std::string& key) override {
    check_store_key(key);
    const Millis limit = timeout();
    const Deadline deadline = store_deadline(limit);
    const auto filled = [&] { return state_->table().length(key) > 0; };
    while (state_->wait_until(deadline, filled)) {
      std::optional<std::string> value = state_->locked(deadline, [&] {
        return filled() ? std::optional(state_->pop(key)) : std::nullopt;  // others pop as well
      });
      if (value) {
        return std::move(*value);
      }
    }
    fail("queue_pop", fmt::format("queue '{}' still empty after {}", key, seconds_text(limit)));
  }

  std::int64_t queue_len(const std::string& key) override {
    check_store_key(key);
    return state_->current([&] { return static_cast<std::int64_t>(state_->table().length(key)); });
  }

  std::vector<std::string> list_keys(std::string_view prefix) override {
    return state_->current([&] { return state_->table().keys_with(prefix); });
  }

  void barrier(const std::string& key, int world_size, Millis timeout) override {
    check_barrier_world_size(key, world_size);
    const Deadline deadline = store_deadline(timeout);
    const std::string ticket = state_->locked(deadline, [&] {
      const int theirs = state_->barrier_world_size(key);
      if (theirs != 0 && theirs != world_size) {
        throw Mismatch(fmt::format("store barrier on {}: {}", describe(),
                                   barrier_mismatch_text(key, theirs, world_size)));
      }
      std::string mine = state_->new_ticket();
      state_->arrive(key, world_size, mine);
      return mine;
    });
    const auto complete = [&] { return !state_->in_barrier(key, ticket); };
    if (state_->wait_until(deadline, complete)) {
      return;
    }
    const int joined = locked([&] {
      const int waiting = complete() ? 0 : state_->barrier_joined(key);
      if (waiting > 0) {
        state_->withdraw(key, ticket);
      }
      return waiting;
    });
    if (joined > 0) {  // else the last one came at the last moment
      fail("barrier", barrier_text(key, joined, world_size, bounded_timeout(timeout)));
    }
  }

  std::shared_ptr<Store> clone() override { return std::make_shared<FileStore>(state_, timeout()); }
  void set_timeout(Millis timeout) override { timeout_.set(timeout); }
  Millis timeout() const override { return timeout_.get(); }
  std::string describe() const override { return "file://" + state_->path(); }

 private:
  [[noreturn]] void fail(std::string_view operation, const std::string& what) const {
    throw Timeout(fmt::format("store {} on {}: {}", operation, describe(), what));
  }

  [[noreturn]] void fail_missing(std::string_view operation, std::span<const std::string> keys,
                                 Millis timeout) {
    const auto missing = state_->current([&] { return state_->table().missing_of(keys); });
    fail(operation, missing_text(missing, bounded_timeout(timeout)));
  }

  template <class Apply>
  std::invoke_result_t<Apply> locked(Apply apply) {
    return state_->locked(store_deadline(timeout()), apply);
  }

  std::vector<std::string> values_once_all_exist(std::string_view operation,
                                                 std::span<const std::string> keys) {
    check_store_keys(keys);
    std::vector<std::string> values;
    const auto take_all = [&] {
      if (!state_->table().missing_of(keys).empty()) {
        return false;
      }
      for (const std::string& key : keys) {
        values.push_back(*state_->table().find(key));
      }
      return true;
    };
    const Millis limit = timeout();
    if (!state_->wait_until(store_deadline(limit), take_all)) {
      fail_missing(operation, keys, limit);
    }
    return values;
  }

  std::shared_ptr<FileState> state_;
  TimeoutSetting timeout_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, int world_size) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw InvalidArgument(fmt::format("file store: '{}' is no path", path));
  }
  if (world_size < -1 || world_size == 0 || world_size > limits::kMaxWorldSize) {
    throw InvalidArgument(fmt::format("file store '{}': world size {}, expected 1 to {}, or -1",
                                      path, world_size, limits::kMaxWorldSize));
  }
  return std::make_shared<FileStore>(std::make_shared<FileState>(path, world_size),
                                     Store::kDefaultTimeout);
}

}  // namespace tutti
