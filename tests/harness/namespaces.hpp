// A test in networks and mounts of its own, so that it may choose interfaces, addresses, host names
// and the size of /dev/shm without a trace on the machine. Works for root and, where the kernel
// lets users make user namespaces, for everybody. Nothing is undone but by the end of the process;
// ranks inherit where their test's process is.
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tutti::testing {

/// Moves this process, which must have one thread, to mounts of its own and to a network in which
/// only lo is up. Empty, or why that is not permitted: a reason to skip the test.
std::string enter_private_namespaces();

/// A network of its own: one kernel namespace with its interfaces. Needs the privileges that
/// enter_private_namespaces brings; throws std::system_error on what else the kernel refuses.
class Network {
 public:
  /// With lo up; this process is in it from now on.
  static Network create();
  /// The network this process is in.
  static Network current();
  void enter() const;
  int fd() const { return fd_.get(); }

 private:
  explicit Network(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// For the network that this process is in.

/// An interface that leads nowhere. `kind` is the kernel's name, such as "dummy"; false if this
/// kernel has no such kind.
bool add_link(const std::string& kind, const std::string& name);

struct PairNames {
  std::string here{};
  std::string there{};
};
/// A virtual cable (veth): one end here, the other in `there`. False if this kernel has none.
bool add_pair(const PairNames& names, const Network& there);

/// Gives an interface an IPv4 address with a network of 24 bits, and sets it up.
void set_up(const std::string& interface, const std::string& address);

/// /etc/hosts of this process: localhost, and this host's name as `address`.
void map_host_name(const std::string& address);

/// An empty /dev/shm of `bytes` for this process.
void mount_dev_shm(std::size_t bytes);

}  // namespace tutti::testing
