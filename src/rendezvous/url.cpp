#include "rendezvous/url.hpp"

#include "base/limits.hpp"
#include "rendezvous/environment.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

namespace tutti {
namespace {

constexpr std::string_view kSeparator = "://";

void read_query(std::string_view query, std::string_view url, RendezvousUrl& parts) {
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view item = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view{} : query.substr(end + 1);
    const auto equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
    if (key == "rank") {
      parts.rank =
          parse_bounded(fmt::format("rank in '{}'", url), value, 0, limits::kMaxWorldSize - 1);
    } else if (key == "world_size") {
      parts.world_size =
          parse_bounded(fmt::format("world_size in '{}'", url), value, 1, limits::kMaxWorldSize);
    } else {
      throw InvalidArgument(
          fmt::format("'{}' has the unknown option '{}'; known are rank and world_size, such as "
                      "tcp://host:port?rank=0&world_size=4",
                      url, item));
    }
  }
}

}  // namespace

std::string scheme_of(std::string_view url) {
  const auto separator = url.find(kSeparator);
  if (separator == std::string_view::npos || separator == 0) {
    throw InvalidArgument(
        fmt::format("init_method '{}' is not a URL; expected env://, "
                    "tcp://host:port, file:///path or a registered scheme",
                    url));
  }
  return std::string(url.substr(0, separator));
}

RendezvousUrl parse_rendezvous_url(std::string_view url) {
  RendezvousUrl parts{.scheme = scheme_of(url)};
  std::string_view rest = url.substr(parts.scheme.size() + kSeparator.size());
  const auto question = rest.find('?');
  parts.rest = rest.substr(0, question);
  if (question != std::string_view::npos) {
    read_query(rest.substr(question + 1), url, parts);
  }
  return parts;
}

HostPort parse_host_port(std::string_view text, std::string_view url) {
  const auto colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  const bool colon_ends_host = colon != std::string_view::npos && colon > 0 &&
                               (bracketed ? text[colon - 1] == ']' : text.find(':') == colon);
  if (!colon_ends_host) {
    throw InvalidArgument(
        fmt::format("'{}' does not name a host and a port; expected tcp://host:port, with brackets "
                    "around an IPv6 address such as tcp://[::1]:29500",
                    url));
  }
  const std::string_view host = bracketed ? text.substr(1, colon - 2) : text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.empty() || port == "0") {
    throw InvalidArgument(
        fmt::format("'{}' names no {}; every rank must know the same host and port", url,
                    host.empty() ? "host" : "port (0 would let each rank pick another one)"));
  }
  return {std::string(host), static_cast<std::uint16_t>(parse_bounded(
                                 fmt::format("the port of '{}'", url), port, 1, 65535))};
}

}  // namespace tutti
