// `tutti run` for one host: the store of the job, its secret, and N supervised ranks.
#pragma once

#include "launcher/options.hpp"

namespace tutti::launcher {

/// Runs the job and returns the exit status; see design notes in keeper.hpp and supervisor.hpp.
/// Errors before the first rank was started are exceptions: InvalidArgument, Unsupported,
/// StoreError, ProgramError.
int run(const RunOptions& options);

}  // namespace tutti::launcher
