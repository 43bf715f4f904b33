#include "net/interface.hpp"

#include "net/socket.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

namespace tutti {
namespace {

using Addresses = std::vector<InterfaceAddress>;

std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) {
      names.push_back(text.substr(0, comma));
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

/// Exact matches if there are any, else interfaces that begin with `name`.
Addresses matches_of(std::string_view name, const Addresses& available) {
  Addresses exact;
  Addresses begins;
  for (const InterfaceAddress& entry : available) {
    if (entry.interface == name) {
      exact.push_back(entry);
    } else if (entry.interface.starts_with(name)) {
      begins.push_back(entry);
    }
  }
  return exact.empty() ? begins : exact;
}

/// Small is good: routable, then link-local, then loopback; IPv4 before IPv6 within each.
int cost_of(const InterfaceAddress& entry) {
  const int ipv6 = entry.address.find(':') != std::string::npos ? 1 : 0;
  const int reach = entry.is_loopback ? 2 : (entry.is_link_local ? 1 : 0);
  return reach * 2 + ipv6;
}

std::string list_of(const Addresses& available) {
  std::set<std::string> names;
  for (const InterfaceAddress& entry : available) {
    names.insert(fmt::format("{} ({})", entry.interface, entry.address));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

InterfaceAddress best_of(const Addresses& candidates, std::string_view preferred) {
  const auto wanted = std::find_if(
      candidates.begin(), candidates.end(),
      [preferred](const InterfaceAddress& entry) { return entry.address == preferred; });
  if (wanted != candidates.end()) {
    return *wanted;
  }
  return *std::min_element(candidates.begin(), candidates.end(),
                           [](const InterfaceAddress& left, const InterfaceAddress& right) {
                             return cost_of(left) < cost_of(right);
                           });
}

bool is_excluded(const InterfaceAddress& entry, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&entry](std::string_view name) { return entry.interface.starts_with(name); });
}

Addresses without(std::string_view excluded, const Addresses& available) {
  const std::vector<std::string_view> names = split_names(excluded);
  Addresses rest;
  std::copy_if(available.begin(), available.end(), std::back_inserter(rest),
               [&names](const InterfaceAddress& entry) { return !is_excluded(entry, names); });
  return rest;
}

}  // namespace

Addresses interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw Unsupported(fmt::format("cannot list the network interfaces: {}", errno_text(errno)));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  Addresses result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) {
      continue;
    }
    SocketAddress address;
    address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    result.push_back(
        {.interface = entry->ifa_name,
         .address = address.host(),
         .is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
         .is_link_local = family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr) != 0});
  }
  return result;
}

InterfaceAddress choose_address(std::string_view spec, std::string_view preferred,
                                const Addresses& available) {
  const auto literal =
      std::find_if(available.begin(), available.end(),
                   [spec](const InterfaceAddress& entry) { return entry.address == spec; });
  if (literal != available.end()) {
    return *literal;
  }
  if (spec.empty() && !available.empty()) {
    return best_of(available, preferred);
  }
  if (spec.starts_with('^')) {
    const Addresses rest = without(spec.substr(1), available);
    if (rest.empty()) {
      throw InvalidArgument(fmt::format(
          "TUTTI_SOCKET_IFNAME='{}' leaves no interface with an address; this host has {}", spec,
          list_of(available)));
    }
    return best_of(rest, preferred);
  }
  for (const std::string_view name : split_names(spec)) {
    const Addresses matches = matches_of(name, available);
    if (!matches.empty()) {
      return best_of(matches, preferred);
    }
  }
  throw InvalidArgument(
      fmt::format("TUTTI_SOCKET_IFNAME='{}' names no interface or address of this host that is up; "
                  "this host has {}",
                  spec, list_of(available)));
}

InterfaceAddress local_address_for(std::string_view spec, std::string_view preferred) {
  return choose_address(spec, preferred, interface_addresses());
}

}  // namespace tutti
