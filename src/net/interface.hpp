// Which network interface to use: TUTTI_SOCKET_IFNAME takes a name, a list of names, an exclusion
// or a literal address.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// An address of this host.
struct InterfaceAddress {
  std::string interface {};
  std::string address{};  ///< "10.0.0.2" or "fe80::1%eth0"
  bool is_loopback = false;
  bool is_link_local = false;
};

/// The addresses of every interface that is up, in the kernel's order.
std::vector<InterfaceAddress> interface_addresses();

/// Chooses by `spec`:
/// "eth0" or "eth0,ib" — the first of these that has an address; a name that matches no interface
/// exactly also stands for those that begin with it (docker: docker0). "^lo,docker" — any interface
/// but these. "10.0.0.2" or "fe80::1%eth0" — that address of this host.
/// "" — any. `preferred` (may be empty) wins if the spec allows it: the local address of a
/// connection that is known to work. Otherwise routable addresses come before link-local before
/// loopback, IPv4 before IPv6. InvalidArgument names what does not exist and lists what does.
InterfaceAddress choose_address(std::string_view spec, std::string_view preferred,
                                const std::vector<InterfaceAddress>& available);

/// choose_address over the interfaces of this host.
InterfaceAddress local_address_for(std::string_view spec, std::string_view preferred = {});

}  // namespace tutti
