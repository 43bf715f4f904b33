// What the keeper's process runs; keeper.hpp says what for.
#pragma once

#include "base/unique_fd.hpp"
#include "launcher/keeper.hpp"

namespace tutti::launcher {

/// Starts the ranks, obeys the channel, and exits when the job is over. To be called in a fresh
/// fork with SIGCHLD blocked.
[[noreturn]] void keeper_process(const KeeperSetup& setup, UniqueFd channel);

}  // namespace tutti::launcher
