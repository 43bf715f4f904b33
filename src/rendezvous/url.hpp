// Rendezvous URLs: scheme://rest?rank=R&world_size=W.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// The parts of a URL. What is not there is empty, 0 or -1.
struct RendezvousUrl {
  std::string scheme{};
  std::string rest{};  ///< between "://" and "?"
  int rank = -1;
  int world_size = -1;
};

/// "env" for "env://...". InvalidArgument if there is no "://" or no scheme before it.
std::string scheme_of(std::string_view url);

/// Splits a URL of a built-in scheme. InvalidArgument for anything it does not understand.
RendezvousUrl parse_rendezvous_url(std::string_view url);

struct HostPort {
  std::string host{};
  std::uint16_t port = 0;
};

/// "host:port", "10.0.0.2:29500" or "[::1]:29500". InvalidArgument for another form and for port 0,
/// which would let every rank pick a port of its own; `url` is for the message.
HostPort parse_host_port(std::string_view text, std::string_view url);

}  // namespace tutti
