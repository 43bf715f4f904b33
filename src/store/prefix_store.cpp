// PrefixStore: every key goes to another store as "prefix/key"; lists come back without the prefix.
#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <fmt/format.h>

namespace tutti {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {}

  void set(const std::string& key, std::string_view value) override { store_->set(in(key), value); }
  std::string get(const std::string& key) override { return store_->get(in(key)); }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return store_->add(in(key), amount);
  }
  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired) override {
    return store_->compare_set(in(key), expected, desired);
  }
  using Store::wait;
  void wait(std::span<const std::string> keys, Millis timeout) override {
    store_->wait(in(keys), timeout);
  }
  bool check(std::span<const std::string> keys) override { return store_->check(in(keys)); }
  bool delete_key(const std::string& key) override { return store_->delete_key(in(key)); }
  std::int64_t num_keys() override {
    return static_cast<std::int64_t>(store_->list_keys(in(std::string())).size());
  }
  void append(const std::string& key, std::string_view value) override {
    store_->append(in(key), value);
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    return store_->multi_get(in(keys));
  }
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    store_->multi_set(in(keys), values);
  }
  void queue_push(const std::string& key, std::string_view value) override {
    store_->queue_push(in(key), value);
  }
  std::string queue_pop(const std::string& key) override { return store_->queue_pop(in(key)); }
  std::int64_t queue_len(const std::string& key) override { return store_->queue_len(in(key)); }
  std::vector<std::string> list_keys(std::string_view prefix) override {
    std::vector<std::string> keys = store_->list_keys(in(std::string(prefix)));
    for (std::string& key : keys) {
      key.erase(0, prefix_.size() + 1);
    }
    return keys;
  }
  void barrier(const std::string& key, int world_size, Millis timeout) override {
    store_->barrier(in(key), world_size, timeout);
  }
  std::shared_ptr<Store> clone() override {
    return std::make_shared<PrefixStore>(prefix_, store_->clone());
  }

  void set_timeout(Millis timeout) override { store_->set_timeout(timeout); }
  Millis timeout() const override { return store_->timeout(); }
  bool has_extended_api() const override { return store_->has_extended_api(); }
  std::string describe() const override {
    return fmt::format("prefix '{}' of {}", prefix_, store_->describe());
  }

 private:
  std::string in(const std::string& key) const {
    std::string whole;
    whole.reserve(prefix_.size() + 1 + key.size());
    whole.append(prefix_).append("/").append(key);
    return whole;
  }
  std::vector<std::string> in(std::span<const std::string> keys) const {
    std::vector<std::string> whole;
    whole.reserve(keys.size());
    for (const std::string& key : keys) {
      whole.push_back(in(key));
    }
    return whole;
  }

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  if (store == nullptr) {
    throw InvalidArgument(fmt::format("prefix store '{}' needs a store, got none", prefix));
  }
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace tutti
