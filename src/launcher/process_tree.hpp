// All descendants of a process, found through /proc. With a subreaper at the top nobody drops out:
// who loses its parent becomes a child of the subreaper, whatever its group or session.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tutti::launcher {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
};

/// Every process below `ancestor` (itself not included), zombies left out. Empty without /proc.
std::vector<Process> processes_below(pid_t ancestor);

/// Sends `signal` to the process groups `leaders` lead, each in one stroke, and to everybody else
/// below `ancestor`. `leaders` are children of this process that it has not waited for, so that
/// their numbers cannot have been given to somebody else.
void signal_tree(pid_t ancestor, std::span<const pid_t> leaders, int signal);

}  // namespace tutti::launcher
