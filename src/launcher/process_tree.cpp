#include "launcher/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

namespace tutti::launcher {
namespace {

std::optional<Process> read_process(pid_t pid) {
  const int fd = ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return std::nullopt;
  }
  std::array<char, 512> text{};
  const ssize_t length = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  // pid (name) state parent group ...; the name may hold brackets itself, so look from the end.
  const char* end_of_name = length > 0 ? std::strrchr(text.data(), ')') : nullptr;
  Process process{.pid = pid};
  char state = 0;
  if (end_of_name == nullptr ||
      std::sscanf(end_of_name + 1, " %c %d %d", &state, &process.parent, &process.group) != 3) {
    return std::nullopt;
  }
  return state == 'Z' || state == 'X' ? std::nullopt : std::optional(process);
}

std::vector<Process> all_processes() {
  std::vector<Process> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) {
      break;
    }
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto parsed = std::from_chars(entry->d_name, end, pid);
    if (parsed.ptr != end || parsed.ec != std::errc{}) {
      continue;
    }
    if (const auto process = read_process(pid)) {
      all.push_back(*process);
    }
  }
  return all;
}

}  // namespace

std::vector<Process> processes_below(pid_t ancestor) {
  std::vector<Process> rest = all_processes();
  std::vector<Process> found;
  std::vector<pid_t> parents{ancestor};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    const auto children = std::partition(rest.begin(), rest.end(),
                                         [parent](const Process& p) { return p.parent != parent; });
    for (auto child = children; child != rest.end(); ++child) {
      parents.push_back(child->pid);
      found.push_back(*child);
    }
    rest.erase(children, rest.end());
  }
  return found;
}

void signal_tree(pid_t ancestor, std::span<const pid_t> leaders, int signal) {
  const std::vector<Process> tree = processes_below(ancestor);
  for (const pid_t leader : leaders) {
    ::kill(-leader, signal);
  }
  for (const Process& process : tree) {
    if (std::find(leaders.begin(), leaders.end(), process.group) == leaders.end()) {
      ::kill(process.pid, signal);
    }
  }
}

}  // namespace tutti::launcher
