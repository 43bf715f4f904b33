// TCPStore: opening one (as server and client, or client alone), and its methods as requests.
#include "base/limits.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"
#include "store/protocol.hpp"
#include "store/rules.hpp"
#include "store/tcp_connection.hpp"
#include "store/tcp_server.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <fmt/format.h>

namespace tutti {
namespace {

/// What handles of one store share.
struct Origin {
  std::string host{};          // as the user gave it
  std::string connect_host{};  // where to reach it
  std::uint16_t port = 0;
  std::string secret{};
  std::shared_ptr<TcpStoreServer> server{};  // null on clients
};

WireWriter request_of(StoreOp op) { return {0, static_cast<std::uint8_t>(op)}; }

WireWriter blocking_request_of(StoreOp op, Duration limit) {
  WireWriter request = request_of(op);
  request.u64(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()));
  return request;
}

std::unique_ptr<TcpStoreConnection> connect(const Origin& origin, Store::Millis timeout) {
  const Deadline deadline = store_deadline(timeout);
  const std::string where = fmt::format("tcp://{}", join_host_port(origin.host, origin.port));
  try {
    UniqueFd fd = connect_tcp(origin.connect_host, origin.port, deadline);
    set_keepalive(fd.get());
    authenticate(fd.get(), origin.secret, Role::client, deadline);
    return std::make_unique<TcpStoreConnection>(std::move(fd), where);
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error& error) {
    throw StoreError(fmt::format("store {}: {}", where, error.what()));
  }
}

class TcpStoreHandle final : public TCPStore {
 public:
  TcpStoreHandle(Origin origin, std::unique_ptr<TcpStoreConnection> connection, Millis timeout)
      : origin_(std::move(origin)), connection_(std::move(connection)), timeout_(timeout) {}

  void join(StoreJoin kind, int world_size) {
    WireWriter request = request_of(StoreOp::join);
    request.u8(static_cast<std::uint8_t>(kind)).u32(static_cast<std::uint32_t>(world_size));
    (void)call("join", request);
  }

  void wait_for_workers(int world_size) {
    WireWriter request = blocking_request_of(StoreOp::wait_workers, timeout());
    (void)call("wait_for_workers", request.u32(static_cast<std::uint32_t>(world_size)));
  }

  void set(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    (void)call("set", request_of(StoreOp::set).text(key).text(value));
  }

  std::string get(const std::string& key) override {
    check_store_key(key);
    WireWriter request = blocking_request_of(StoreOp::get, timeout());
    return text_in(call("get", request.texts({&key, 1})));
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    check_store_key(key);
    WireWriter request = request_of(StoreOp::add);
    return number_in(call("add", request.text(key).u64(static_cast<std::uint64_t>(amount))));
  }

  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired) override {
    check_store_value(key, expected);
    check_store_value(key, desired);
    WireWriter request = request_of(StoreOp::compare_set);
    return text_in(call("compare_set", request.text(key).text(expected).text(desired)));
  }

  using Store::wait;
  void wait(std::span<const std::string> keys, Millis timeout) override {
    check_store_keys(keys);
    const Millis limit = bounded_timeout(timeout);
    WireWriter request = blocking_request_of(StoreOp::wait, limit);
    (void)connection_->call("wait", request.texts(keys), limit);
  }

  bool check(std::span<const std::string> keys) override {
    check_store_keys(keys);
    return flag_in(call("check", request_of(StoreOp::check).texts(keys)));
  }

  bool delete_key(const std::string& key) override {
    check_store_key(key);
    return flag_in(call("delete_key", request_of(StoreOp::delete_key).text(key)));
  }

  std::int64_t num_keys() override {
    WireWriter request = request_of(StoreOp::num_keys);
    return number_in(call("num_keys", request));
  }

  void append(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    (void)call("append", request_of(StoreOp::append).text(key).text(value));
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    check_store_keys(keys);
    WireWriter request = blocking_request_of(StoreOp::multi_get, timeout());
    return texts_in(call("multi_get", request.texts(keys)));
  }

  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    check_store_pairs(keys, values);
    (void)call("multi_set", request_of(StoreOp::multi_set).texts(keys).texts(values));
  }

  void queue_push(const std::string& key, std::string_view value) override {
    check_store_value(key, value);
    (void)call("queue_push", request_of(StoreOp::queue_push).text(key).text(value));
  }

  std::string queue_pop(const std::string& key) override {
    check_store_key(key);
    WireWriter request = blocking_request_of(StoreOp::queue_pop, timeout());
    return text_in(call("queue_pop", request.text(key)));
  }

  std::int64_t queue_len(const std::string& key) override {
    check_store_key(key);
    return number_in(call("queue_len", request_of(StoreOp::queue_len).text(key)));
  }

  std::vector<std::string> list_keys(std::string_view prefix) override {
    return texts_in(call("list_keys", request_of(StoreOp::list_keys).text(prefix)));
  }

  void barrier(const std::string& key, int world_size, Millis timeout) override {
    check_barrier_world_size(key, world_size);
    const Millis limit = bounded_timeout(timeout);
    WireWriter request = blocking_request_of(StoreOp::barrier, limit);
    request.text(key).u32(static_cast<std::uint32_t>(world_size));
    (void)connection_->call("barrier", request, limit);
  }

  std::shared_ptr<Store> clone() override {
    auto handle = std::make_shared<TcpStoreHandle>(origin_, connect(origin_, timeout()), timeout());
    handle->join(StoreJoin::extra, 0);
    return handle;
  }

  void set_timeout(Millis timeout) override { timeout_.set(timeout); }
  Millis timeout() const override { return timeout_.get(); }
  std::string describe() const override { return connection_->where(); }
  const std::string& host() const override { return origin_.host; }
  std::uint16_t port() const override { return origin_.port; }
  bool is_server() const override { return origin_.server != nullptr; }
  std::string local_address() const override {
    return tutti::local_address(connection_->fd()).host();
  }

 private:
  std::string call(std::string_view operation, WireWriter& request) {
    return connection_->call(operation, request, timeout());
  }

  /// Takes one field out of a reply; a reply that is not as expected is the server's fault.
  template <class Take>
  auto take(const std::string& reply, Take field) const {
    try {
      WireReader reader(reply);
      auto value = field(reader);
      reader.finish();
      return value;
    } catch (const MalformedFrame& bad) {
      throw StoreError(fmt::format("store on {}: the server's reply makes no sense: {}",
                                   connection_->where(), bad.what()));
    }
  }
  std::string text_in(const std::string& reply) const {
    return take(reply, [](WireReader& reader) { return std::string(reader.text()); });
  }
  std::vector<std::string> texts_in(const std::string& reply) const {
    return take(reply, [](WireReader& reader) { return reader.texts(); });
  }
  std::int64_t number_in(const std::string& reply) const {
    return take(reply, [](WireReader& reader) { return static_cast<std::int64_t>(reader.u64()); });
  }
  bool flag_in(const std::string& reply) const {
    return take(reply, [](WireReader& reader) { return reader.u8() != 0; });
  }

  Origin origin_;  // before the connection: the server outlives it
  std::unique_ptr<TcpStoreConnection> connection_;
  TimeoutSetting timeout_;
};

/// Takes over a socket that listens already.
UniqueFd adopted_listener(const TCPStoreOptions& options) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  const int fd = options.listen_fd;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
    throw InvalidArgument(
        fmt::format("TCPStore: listen_fd {} is not a listening socket; listen on it first", fd));
  }
  const std::uint16_t actual = local_address(fd).port();
  if (actual == 0 || (options.port != 0 && options.port != actual)) {
    throw InvalidArgument(
        fmt::format("TCPStore: listen_fd {} listens on port {}, expected port {}; give the port "
                    "it has, or 0",
                    fd, actual, options.port));
  }
  set_nonblocking(fd);
  set_cloexec(fd);
  return UniqueFd(fd);
}

UniqueFd listener_for(const TCPStoreOptions& options) {
  if (options.listen_fd >= 0) {
    return adopted_listener(options);
  }
  try {
    return listen_tcp(options.host, options.port);
  } catch (const SocketError& error) {
    throw StoreAddressError(
        fmt::format("TCPStore: {}", error.what()),
        {.host = options.host, .port = error.where().port, .code = error.where().code});
  }
}

/// Where the serving process itself reaches its server: not through "any address".
std::string reachable_host(const SocketAddress& address) {
  const std::string host = address.host();
  if (host == "0.0.0.0") {
    return "127.0.0.1";
  }
  return host == "::" ? "::1" : host;
}

void check_options(const TCPStoreOptions& options) {
  if (!options.is_server && options.listen_fd >= 0) {
    throw InvalidArgument("TCPStore: listen_fd is for the server; set is_server");
  }
  if (!options.is_server && options.port == 0) {
    throw InvalidArgument(fmt::format(
        "TCPStore: a client needs the server's port, got 0 for host '{}'", options.host));
  }
  const int world_size = options.world_size.value_or(1);
  if (world_size < 1 || world_size > limits::kMaxWorldSize) {
    throw InvalidArgument(fmt::format("TCPStore: world size {}, expected 1 to {}", world_size,
                                      limits::kMaxWorldSize));
  }
}

}  // namespace

std::shared_ptr<TCPStore> TCPStore::open(const TCPStoreOptions& options) {
  check_options(options);
  Origin origin{.host = options.host,
                .connect_host = options.host,
                .port = options.port,
                .secret = options.secret ? *options.secret : job_secret()};
  const TimeoutSetting timeout(options.timeout);
  if (options.is_server) {
    origin.server = std::make_shared<TcpStoreServer>(listener_for(options), origin.secret);
    origin.port = origin.server->address().port();
    origin.connect_host = reachable_host(origin.server->address());
  }
  auto connection = connect(origin, timeout.get());
  auto handle =
      std::make_shared<TcpStoreHandle>(std::move(origin), std::move(connection), timeout.get());
  handle->join(StoreJoin::worker, options.world_size.value_or(0));
  if (options.wait_for_workers && options.world_size) {
    handle->wait_for_workers(*options.world_size);
  }
  return handle;
}

}  // namespace tutti
