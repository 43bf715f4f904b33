// Hosts: which ranks share memory, from the table of pairs that could map each other's segments.
// Pure, so that every rank derives the same from the same table.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tutti {

struct HostTable {
  std::vector<int> host_of{};  ///< rank -> number of its host, counted by lowest rank
  bool same(int a, int b) const {
    return host_of[static_cast<std::size_t>(a)] == host_of[static_cast<std::size_t>(b)];
  }
};

/// `shares(high, low)`: the pair shares memory. Where that is not transitive within a set of
/// connected ranks, each of them counts as a host of its own: a plan may only rely on what holds
/// for all.
HostTable derive_hosts(int world_size, const std::function<bool(int high, int low)>& shares);

/// Number of different CPUs in lists such as "0,1,5".
int count_cpus(const std::vector<std::string>& lists);

}  // namespace tutti
