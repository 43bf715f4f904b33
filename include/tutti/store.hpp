// Key-value stores: how the processes of a job find each other. Four kinds, one behaviour, held by
// one conformance suite. Values are bytes, keys are UTF-8 strings.
#pragma once

#include <tutti/error.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace tutti {

/// A key-value store shared by the processes of a job. All methods are thread-safe and throw
/// StoreError when the store cannot be reached, Timeout when `timeout()` passes (the text names the
/// missing keys), InvalidArgument for a key or value over the limits of docs/environment.md.
class Store {
 public:
  using Millis = std::chrono::milliseconds;
  static constexpr Millis kDefaultTimeout{300'000};

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// Stores `value` under `key`, replacing what was there.
  virtual void set(const std::string& key, std::string_view value) = 0;
  /// Waits until `key` exists and returns its value.
  virtual std::string get(const std::string& key) = 0;
  /// Adds `amount` to the integer under `key` (absent counts as 0) and returns the sum. Atomic.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Sets `key` to `desired` if its value is `expected`; an absent key counts as equal to an empty
  /// `expected`. Returns the value now stored (`expected` if the key is absent and stays so).
  virtual std::string compare_set(const std::string& key, std::string_view expected,
                                  std::string_view desired) = 0;
  /// Waits until all keys exist; `timeout` bounds this call only.
  virtual void wait(std::span<const std::string> keys, Millis timeout) = 0;
  void wait(std::span<const std::string> keys) { wait(keys, timeout()); }
  /// Whether all keys exist now.
  virtual bool check(std::span<const std::string> keys) = 0;
  /// Removes `key`; false if it was absent.
  virtual bool delete_key(const std::string& key) = 0;
  virtual std::int64_t num_keys() = 0;
  /// Appends to the value under `key` (absent counts as empty). Atomic.
  virtual void append(const std::string& key, std::string_view value) = 0;
  /// Waits for all keys and returns their values in order.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys) = 0;
  virtual void multi_set(std::span<const std::string> keys,
                         std::span<const std::string> values) = 0;
  /// Queues: first in, first out. `queue_pop` waits for an element; `queue_len` of an absent queue
  /// is 0. Queues and plain values have separate key spaces.
  virtual void queue_push(const std::string& key, std::string_view value) = 0;
  virtual std::string queue_pop(const std::string& key) = 0;
  virtual std::int64_t queue_len(const std::string& key) = 0;
  /// Keys of plain values that start with `prefix`, sorted.
  virtual std::vector<std::string> list_keys(std::string_view prefix = {}) = 0;
  /// Returns once `world_size` callers used the same `key`; Timeout tells how many had joined.
  virtual void barrier(const std::string& key, int world_size, Millis timeout) = 0;
  /// Another handle on the same data, with a connection of its own where there is one.
  virtual std::shared_ptr<Store> clone() = 0;

  virtual void set_timeout(Millis timeout) = 0;
  virtual Millis timeout() const = 0;
  /// Every store here offers append, multi_get, multi_set and queues.
  virtual bool has_extended_api() const { return true; }
  /// What to print for a person, such as "tcp://127.0.0.1:29500".
  virtual std::string describe() const = 0;
};

/// Lives in this process; for one process with several ranks as threads, and tests.
std::shared_ptr<Store> make_hash_store();

/// Lives in a file that all processes can reach. The last user to leave removes the file; a file
/// left over by a job that was killed is refused (StoreError tells to remove it) when more than
/// `world_size` users join. world_size -1: unknown.
std::shared_ptr<Store> make_file_store(const std::string& path, int world_size = -1);

/// The server of a TCP store cannot listen where it was told to. The facts are fields, so that
/// nobody has to search the text.
class StoreAddressError : public StoreError {
 public:
  struct Where {
    std::string host{};
    std::uint16_t port = 0;
    int code = 0;  ///< errno, such as EADDRINUSE
  };
  StoreAddressError(const std::string& text, Where where)
      : StoreError(text), where_(std::move(where)) {}
  const Where& where() const noexcept { return where_; }

 private:
  Where where_;
};

/// Options of a TCP store.
struct TCPStoreOptions {
  std::string host = "127.0.0.1";   ///< name or IPv4/IPv6 address; a server listens only there
  std::uint16_t port = 0;           ///< 0 on the server: pick one, see TCPStore::port
  bool is_server = false;           ///< serve from this process (and be a client too)
  std::optional<int> world_size{};  ///< if given with wait_for_workers: wait for that many clients
  bool wait_for_workers = false;
  Store::Millis timeout = Store::kDefaultTimeout;  ///< for connecting and for every blocking call
  int listen_fd = -1;  ///< server only: an already listening socket, taken over
  /// Job secret; absent: TUTTI_SECRET, TUTTI_SECRET_FILE, else none. A client with another secret
  /// is turned away before anything it sent is parsed.
  std::optional<std::string> secret{};
};

/// A store served over TCP by one process, with one event loop for all clients.
class TCPStore : public Store {
 public:
  /// Connects (and first serves, if asked). Throws StoreError naming host, port and cause.
  static std::shared_ptr<TCPStore> open(const TCPStoreOptions& options);
  virtual const std::string& host() const = 0;
  virtual std::uint16_t port() const = 0;
  virtual bool is_server() const = 0;
  /// Address of this end of the connection to the server, as a peer on that network would reach us.
  virtual std::string local_address() const = 0;
};

/// A view of `store` in which every key carries `prefix` and a slash.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace tutti
#pragma GCC visibility pop
