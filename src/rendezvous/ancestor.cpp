// Facts about this host that the rendezvous through a file needs: who started the ranks, and a
// folder that only this user can write to.
#include "rendezvous/environment.hpp"
#include "rendezvous/process_identity.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {
namespace {

bool is_process_manager(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames{
      "hydra_pmi_proxy", "mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
    return name.starts_with(known);  // also mpirun.openmpi
  });
}

std::string identity(pid_t pid, const std::optional<ProcessFacts>& facts) {
  return fmt::format("{}-{}", pid, facts ? facts->start_time : "?");
}

}  // namespace

LaunchAncestry launch_ancestry() {
  constexpr int kMaxLevels = 16;
  pid_t pid = ::getppid();
  LaunchAncestry above{.parent = identity(pid, facts_of(pid))};
  for (int level = 0; level < kMaxLevels && pid > 1 && above.manager.empty(); ++level) {
    const auto facts = facts_of(pid);
    if (!facts) {
      break;
    }
    above.manager = is_process_manager(facts->name) ? identity(pid, facts) : "";
    pid = facts->parent;
  }
  return above;
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
