// From a URL to (store, rank, world size). environment.hpp decides where the store is; here it is
// opened.
#include "rendezvous/rendezvous.hpp"

#include "rendezvous/url.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

struct Seating {
  Given rank{};
  Given world_size{};
};

// Argument before URL; the environment fills in the rest later.
Seating given_seat(const RendezvousRequest& request, const RendezvousUrl& url) {
  const auto pick = [](int argument, int in_url) {
    return argument >= 0 ? Given{argument, "the argument"} : Given{in_url, "the URL"};
  };
  const auto check = [](std::string_view what, int value) {
    if (value < -1) {
      throw InvalidArgument(
          fmt::format("{} is {}, expected 0 or more, or -1 for not given", what, value));
    }
  };
  check("rank", request.rank);
  check("world size", request.world_size);
  return {pick(request.rank, url.rank), pick(request.world_size, url.world_size)};
}

// Fills a seat from the environment only where it has gaps.
Seating complete_seat(Seating seat, const EnvLookup& lookup) {
  if (seat.rank.known() && seat.world_size.known()) {
    check_seat(seat.rank, seat.world_size);
    return seat;
  }
  JobEnvironment job = read_job_environment(lookup, seat.rank, seat.world_size);
  return {std::move(job.rank), std::move(job.world_size)};
}

struct TcpPlace {
  HostPort at{};
  bool serve = false;
};

RendezvousResult open_tcp(const TcpPlace& place, const Seating& seat, Store::Millis timeout) {
  TCPStoreOptions options{.host = place.at.host,
                          .port = place.at.port,
                          .is_server = place.serve,
                          .world_size = seat.world_size.value,
                          .timeout = timeout};
  return {TCPStore::open(options), seat.rank.value, seat.world_size.value};
}

RendezvousResult open_file(const std::string& path, const Seating& seat, Store::Millis timeout) {
  auto store = make_file_store(path, seat.world_size.value);
  store->set_timeout(timeout);
  return {std::move(store), seat.rank.value, seat.world_size.value};
}

// A file name from an id that a launcher chose.
std::string safe_file_name(std::string name) {
  constexpr std::size_t kMaxBytes = 128;
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_@.";
  for (char& c : name) {
    c = kPlain.find(c) == std::string_view::npos ? '_' : c;
  }
  name.resize(std::min(name.size(), kMaxBytes));
  return name;
}

// The store that `tutti run` serves may also be named by a URL; then rank 0 must not serve it
// again.
bool is_launchers_store(const HostPort& at, const EnvLookup& lookup) {
  return lookup("TUTTI_AGENT_STORE") == "1" && lookup("MASTER_ADDR") == at.host &&
         lookup("MASTER_PORT") == std::to_string(at.port);
}

}  // namespace

RendezvousResult join_env(const RendezvousRequest& request, const EnvLookup& lookup) {
  const RendezvousUrl url = parse_rendezvous_url(request.url);
  if (!url.rest.empty()) {
    throw InvalidArgument(
        fmt::format("'{}' has '{}' after env://; expected env:// or env://?rank=R&world_size=W",
                    request.url, url.rest));
  }
  Seating given = given_seat(request, url);
  const JobEnvironment job = read_job_environment(lookup, given.rank, given.world_size);
  const StorePlace place = place_store(job, launch_ancestry);
  const Seating seat{job.rank, job.world_size};
  switch (place.kind) {
    case StorePlace::Kind::tcp:
      return open_tcp({{place.host, place.port}, place.serve}, seat, request.timeout);
    case StorePlace::Kind::file:
      return open_file(rendezvous_folder(lookup) + "/" + safe_file_name(place.file_name), seat,
                       request.timeout);
    case StorePlace::Kind::process:
      break;
  }
  auto store = make_hash_store();
  store->set_timeout(request.timeout);
  return {std::move(store), seat.rank.value, seat.world_size.value};
}

RendezvousResult join_tcp(const RendezvousRequest& request, const EnvLookup& lookup) {
  const RendezvousUrl url = parse_rendezvous_url(request.url);
  const HostPort at = parse_host_port(url.rest, request.url);
  const Seating seat = complete_seat(given_seat(request, url), lookup);
  const bool serve = seat.rank.value == 0 && !is_launchers_store(at, lookup);
  return open_tcp({at, serve}, seat, request.timeout);
}

RendezvousResult join_file(const RendezvousRequest& request, const EnvLookup& lookup) {
  const RendezvousUrl url = parse_rendezvous_url(request.url);
  if (!url.rest.starts_with('/') || url.rest.size() < 2) {
    throw InvalidArgument(fmt::format(
        "'{}' does not name an absolute path; expected file:///folder/file", request.url));
  }
  return open_file(url.rest, complete_seat(given_seat(request, url), lookup), request.timeout);
}

RendezvousRegistry::RendezvousRegistry() {
  const auto with_environment = [](auto handler) {
    return [handler](const RendezvousRequest& request) {
      return handler(request, process_environment);
    };
  };
  handlers_.emplace("env", with_environment(join_env));
  handlers_.emplace("tcp", with_environment(join_tcp));
  handlers_.emplace("file", with_environment(join_file));
}

void RendezvousRegistry::add(const std::string& scheme, RendezvousHandler handler) {
  if (scheme.empty() || scheme.find_first_of(":/?") != std::string::npos || !handler) {
    throw InvalidArgument(fmt::format(
        "rendezvous scheme '{}' cannot be registered: it needs a name without ':', '/' and '?', "
        "and a handler",
        scheme));
  }
  if (!handlers_.try_emplace(scheme, std::move(handler)).second) {
    throw InvalidArgument(
        fmt::format("rendezvous scheme '{}' is already registered; choose another name", scheme));
  }
}

RendezvousResult RendezvousRegistry::join(const RendezvousRequest& request) const {
  RendezvousRequest full = request;
  full.url = request.url.empty() ? "env://" : request.url;
  if (full.timeout <= Store::Millis::zero()) {
    throw InvalidArgument(
        fmt::format("rendezvous timeout is {} ms, expected more than 0", full.timeout.count()));
  }
  const std::string scheme = scheme_of(full.url);
  const auto found = handlers_.find(scheme);
  if (found == handlers_.end()) {
    std::string known;
    for (const auto& [name, handler] : handlers_) {
      known += (known.empty() ? "" : ", ") + name;
    }
    throw InvalidArgument(fmt::format("init_method '{}' has the unknown scheme '{}'; known are {}",
                                      full.url, scheme, known));
  }
  RendezvousResult result = found->second(full);
  if (result.store == nullptr) {
    throw InvalidArgument(fmt::format("the rendezvous handler of '{}' returned no store", scheme));
  }
  const std::string from = fmt::format("the handler of {}://", scheme);
  check_seat({result.rank, from}, {result.world_size, from});
  return result;
}

namespace {

// Part of the default context: the one place where the process has state of its own.
struct DefaultRegistry {
  std::mutex mutex{};
  RendezvousRegistry registry{};
};

DefaultRegistry& default_registry() {
  static DefaultRegistry instance;
  return instance;
}

}  // namespace

void register_rendezvous_handler(const std::string& scheme, RendezvousHandler handler) {
  DefaultRegistry& shared = default_registry();
  const std::lock_guard lock(shared.mutex);
  shared.registry.add(scheme, std::move(handler));
}

RendezvousResult join_default(const RendezvousRequest& request) {
  // A join waits for other ranks, which in tests may be threads of this process: use a copy.
  DefaultRegistry& shared = default_registry();
  RendezvousRegistry registry = [&shared] {
    const std::lock_guard lock(shared.mutex);
    return shared.registry;
  }();
  return registry.join(request);
}

}  // namespace tutti
