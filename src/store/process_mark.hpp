// Tells whether a process that joined a file store earlier still lives, as far as this host knows.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// Identifies a process across reuse of its number: boot, PID namespace, number, start time.
struct ProcessMark {
  std::string boot{};  ///< of the kernel, and the PID namespace
  std::uint64_t pid = 0;
  std::uint64_t start = 0;  ///< clock ticks since boot
};

ProcessMark mark_of_this_process();
/// True only if it ran on this host, in this PID namespace, and has ended.
bool is_known_dead(const ProcessMark& mark);

}  // namespace tutti
