#include "transport/hosts.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

namespace tutti {

HostTable derive_hosts(int world_size, const std::function<bool(int high, int low)>& shares) {
  const auto size = static_cast<std::size_t>(world_size);
  std::vector<int> group(size);
  std::iota(group.begin(), group.end(), 0);
  for (int high = 0; high < world_size; ++high) {
    for (int low = 0; low < high; ++low) {
      if (!shares(high, low)) {
        continue;
      }
      const int keep =
          std::min(group[static_cast<std::size_t>(high)], group[static_cast<std::size_t>(low)]);
      const int drop =
          std::max(group[static_cast<std::size_t>(high)], group[static_cast<std::size_t>(low)]);
      if (keep == drop) {
        continue;
      }
      std::replace(group.begin(), group.end(), drop, keep);
    }
  }
  std::vector<bool> broken(size, false);
  for (int high = 0; high < world_size; ++high) {
    for (int low = 0; low < high; ++low) {
      const int root = group[static_cast<std::size_t>(high)];
      if (root == group[static_cast<std::size_t>(low)] && !shares(high, low)) {
        broken[static_cast<std::size_t>(root)] = true;
      }
    }
  }
  HostTable table;
  std::vector<int> number(size, -1);
  int next = 0;
  for (std::size_t r = 0; r < size; ++r) {
    const auto root = static_cast<std::size_t>(group[r]);
    if (broken[root]) {
      table.host_of.push_back(next++);
      continue;
    }
    if (number[root] < 0) {
      number[root] = next++;
    }
    table.host_of.push_back(number[root]);
  }
  return table;
}

int count_cpus(const std::vector<std::string>& lists) {
  std::set<std::string> cpus;
  for (const std::string& list : lists) {
    std::istringstream stream(list);
    for (std::string cpu; std::getline(stream, cpu, ',');) {
      cpus.insert(cpu);
    }
  }
  return static_cast<int>(cpus.size());
}

}  // namespace tutti
