// Facts about this host that the rendezvous through a file needs: who started the ranks, and a
// folder that only this user can write to.
#include "rendezvous/environment.hpp"
#include "rendezvous/process_identity.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace tutti {
namespace {

bool is_process_manager(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames{
      "hydra_pmi_proxy", "mpirun", "mpiexec", "mpiexec.hydra", "orted", "prted", "prterun"};
  for (const std::string_view known : kNames) {
    if (name == known.substr(0, 15)) {  // the kernel cuts names to 15 bytes
      return true;
    }
  }
  return false;
}

std::string identity(pid_t pid, const ProcessFacts& facts) {
  return fmt::format("{}-{}", pid, facts.start_time);
}

}  // namespace

std::string launch_ancestor() {
  constexpr int kMaxLevels = 16;
  pid_t pid = ::getppid();
  for (int level = 0; level < kMaxLevels && pid > 1; ++level) {
    const auto facts = facts_of(pid);
    if (!facts) {
      break;
    }
    if (is_process_manager(facts->name)) {
      return identity(pid, *facts);
    }
    pid = facts->parent;
  }
  const pid_t parent = ::getppid();
  const auto facts = facts_of(parent);
  return facts ? identity(parent, *facts) : std::to_string(parent);
}

std::string rendezvous_folder(const EnvLookup& lookup) {
  std::string folder = fmt::format("/tmp/tutti-{}", ::geteuid());
  if (const auto runtime = lookup("XDG_RUNTIME_DIR")) {
    if (::access(runtime->c_str(), W_OK | X_OK) == 0) {
      folder = *runtime + "/tutti";
    }
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw InvalidArgument(
        fmt::format("cannot make the folder {} for the rendezvous (errno {}); "
                    "set MASTER_ADDR and MASTER_PORT instead",
                    folder, errno));
  }
  struct stat found {};
  const bool ours = ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                    found.st_uid == ::geteuid() && (found.st_mode & 0022) == 0;
  if (!ours) {
    throw InvalidArgument(
        fmt::format("{} is not a folder that only this user can write to, so that a rendezvous "
                    "there could be hijacked; remove it, or set MASTER_ADDR and MASTER_PORT",
                    folder));
  }
  return folder;
}

}  // namespace tutti
