#include "rendezvous/process_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

namespace tutti {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "?";
  }
  return name.data();
}

std::string pid_scope() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &space) != 0) {
    return "?";
  }
  return fmt::format("{}/{}", boot, space.st_ino);
}

}  // namespace

std::optional<ProcessFacts> facts_of(pid_t pid) {
  // pid (name) state parent ...; the name may hold spaces and brackets itself.
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return std::nullopt;
  }
  ProcessFacts facts{.name = line.substr(open + 1, close - open - 1)};
  std::istringstream rest(line.substr(close + 1));
  rest >> facts.state >> facts.parent;
  constexpr int kFieldsBetweenParentAndStart = 17;
  for (int i = 0; i < kFieldsBetweenParentAndStart; ++i) {
    rest >> facts.start_time;
  }
  rest >> facts.start_time;
  return rest.fail() ? std::nullopt : std::optional(facts);
}

ProcessIdentity this_process() {
  ProcessIdentity me{.host = host_name(), .scope = pid_scope(), .pid = ::getpid()};
  if (const auto facts = facts_of(me.pid)) {
    me.start_time = facts->start_time;
  }
  return me;
}

bool is_known_dead(const ProcessIdentity& process) {
  if (process.scope == "?" || process.scope != pid_scope()) {
    return false;
  }
  if (::kill(process.pid, 0) != 0) {
    return errno == ESRCH;
  }
  const auto facts = facts_of(process.pid);
  return facts && (facts->state == 'Z' || facts->start_time != process.start_time);
}

}  // namespace tutti
