// Ranks as processes of this command: forked before any thread exists, joined through a store that
// the parent serves on the loopback interface. No rank outlives the parent.
#pragma once

#include <tutti/group.hpp>

#include <functional>

namespace tutti::cli {

/// What a rank runs: how to join comes in, an exit status goes out. Exceptions become a line on
/// standard error and a status as main() gives it.
using RankBody = std::function<int(const InitOptions& join)>;

/// Forks `ranks` processes that run `body` and returns when all have ended: 0, else the status of
/// the first that failed (128 + signal if it was killed). Once one has failed the others have a few
/// seconds to notice, then they are killed. `command` begins their messages.
int run_ranks(const std::string& command, int ranks, const RankBody& body);

}  // namespace tutti::cli
