// Who a process is, so that another process of the same host can tell whether it still lives.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace tutti {

/// Every field is one word without spaces.
struct ProcessIdentity {
  std::string host = "?";
  std::string scope = "?";  ///< boot and PID namespace: pids are comparable only where it is equal
  pid_t pid = 0;
  std::string start_time = "?";  ///< clock ticks since boot; tells a recycled pid apart
};

ProcessIdentity this_process();

/// Whether `process` is known to have ended; false if it lives or cannot be seen from here.
bool is_known_dead(const ProcessIdentity& process);

/// From /proc/<pid>/stat.
struct ProcessFacts {
  std::string name{};  ///< at most 15 bytes
  char state = '?';    ///< 'Z': ended, not yet waited for
  pid_t parent = 0;
  std::string start_time{};
};

/// nullopt if there is no such process here.
std::optional<ProcessFacts> facts_of(pid_t pid);

}  // namespace tutti
