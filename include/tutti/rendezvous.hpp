// Rendezvous: from a URL (or the environment) to a store, a rank and a world size.
#pragma once

#include <tutti/store.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#pragma GCC visibility push(default)
namespace tutti {

/// What the caller already knows; -1: not given.
struct RendezvousRequest {
  std::string url{};
  int rank = -1;
  int world_size = -1;
  std::chrono::milliseconds timeout = Store::kDefaultTimeout;
};

struct RendezvousResult {
  std::shared_ptr<Store> store{};
  int rank = -1;
  int world_size = -1;
};

using RendezvousHandler = std::function<RendezvousResult(const RendezvousRequest&)>;

/// Schemes that init_process_group understands. The built-in ones are env, tcp and file.
class RendezvousRegistry {
 public:
  RendezvousRegistry();
  /// InvalidArgument if the scheme is taken.
  void add(const std::string& scheme, RendezvousHandler handler);
  /// InvalidArgument for an unknown scheme, listing those that exist.
  RendezvousResult join(const RendezvousRequest& request) const;

 private:
  std::map<std::string, RendezvousHandler> handlers_;
};

/// Makes `scheme://` usable in InitOptions::init_method of the default context.
void register_rendezvous_handler(const std::string& scheme, RendezvousHandler handler);

}  // namespace tutti
#pragma GCC visibility pop
