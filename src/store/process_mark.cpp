#include "store/process_mark.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tutti {
namespace {

/// Boot id and PID namespace; "" if /proc does not tell.
std::string boot_text() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  struct stat name_space {};
  if (id.empty() || ::stat("/proc/self/ns/pid", &name_space) != 0) {
    return {};
  }
  return fmt::format("{}/{}", id, name_space.st_ino);
}

/// Start time of a living process, 0 if there is none.
std::uint64_t start_of(std::uint64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t after_name = line.rfind(')');  // the name may hold anything
  if (after_name == std::string::npos) {
    return 0;
  }
  std::istringstream fields(line.substr(after_name + 1));
  std::string state;
  fields >> state;
  if (state == "Z" || state == "X") {
    return 0;  // ended, only not waited for
  }
  constexpr int kFieldsBetween = 18;  // state is field 3, start time field 22
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) {
    fields >> skipped;
  }
  std::uint64_t start = 0;
  fields >> start;
  return start;
}

}  // namespace

ProcessMark mark_of_this_process() {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  return {.boot = boot_text(), .pid = pid, .start = start_of(pid)};
}

bool is_known_dead(const ProcessMark& mark) {
  if (mark.boot.empty() || mark.start == 0 || mark.boot != boot_text()) {
    return false;
  }
  return start_of(mark.pid) != mark.start;
}

}  // namespace tutti
