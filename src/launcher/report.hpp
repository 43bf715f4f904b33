// How a job ended: which rank failed first, which were stopped by the launcher, and what that makes
// as an exit status and as a line for a person.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tutti::launcher {

/// Why the job did not just end.
enum class Cause {
  none,
  rank_failed,  ///< JobOutcome::first_rank ended with something else than 0
  not_started,  ///< JobOutcome::first_rank could not be forked; `detail` says why
  signal,       ///< the launcher was told to stop by JobOutcome::signal
  timeout,      ///< --timeout passed
  keeper_lost,  ///< somebody killed the keeper process, and with it the ranks
};

struct RankEnd {
  bool ended = false;
  int status = 0;           ///< as waitpid gives it
  bool after_stop = false;  ///< ended after the launcher had begun to stop the job
};

struct JobOutcome {
  Cause cause = Cause::none;
  int first_rank = -1;
  int signal = 0;
  std::string detail{};
  std::chrono::milliseconds timeout{0};
  bool killed = false;  ///< the grace period passed and SIGKILL was sent
  std::vector<RankEnd> ranks{};
};

/// 0 only if every rank ended with 0. The first failing rank's exit status, 128 + signal if it was
/// killed; 128 + signal if the launcher was told to stop; 124 for a timeout, as timeout(1).
int exit_status(const JobOutcome& outcome);

/// One line without newline, such as "rank 1 failed first: exit code 7; stopped by the launcher:
/// rank 0 (SIGTERM, -15)"; empty if nothing went wrong.
std::string report(const JobOutcome& outcome);

/// "SIGSEGV" for 11.
std::string signal_name(int signal);

}  // namespace tutti::launcher
