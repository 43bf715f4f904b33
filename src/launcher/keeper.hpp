// The keeper: one small process between the launcher and the ranks, so that no process of the job
// survives the launcher, not even after kill -9 of it.
//
//   launcher ──channel──> keeper ──fork──> rank 0 ──> whatever rank 0 starts
//                                 ──fork──> rank 1 ...
//
// * It is a subreaper: a grandchild that loses its parent becomes the keeper's child, even if it
// has
//   a session of its own. The job is over exactly when the keeper has no child left.
// * It reads the channel; end of file means that the launcher died: SIGKILL to the whole tree until
//   it is empty, then the private folder is removed.
// * It leads a process group of its own and blocks every signal, so that neither Ctrl-C nor a kill
// of
//   the launcher's process group takes it along.
// * If somebody kills the keeper itself, every rank gets SIGKILL (PR_SET_PDEATHSIG), and the rest
// of
//   the tree falls to the launcher, which is a subreaper too and kills it.
// What remains: killing launcher and keeper with SIGKILL in the same instant leaves grandchildren.
// The launcher decides, the keeper only obeys; it is forked before the launcher has threads.
#pragma once

#include "base/unique_fd.hpp"

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::launcher {

/// Launcher to keeper.
struct KeeperCommand {
  enum class Kind : std::uint8_t {
    signal_ranks,  ///< `signal` to the process of each rank only
    signal_tree,   ///< `signal`, then SIGCONT, to every process of the job
    kill_tree,     ///< SIGKILL to every process of the job until none is left
    finish,        ///< exit as soon as no process of the job is left
  };
  Kind kind = Kind::finish;
  int signal = 0;
};

/// Keeper to launcher; the end of the channel means that the keeper has ended.
struct KeeperEvent {
  enum class Kind : std::uint8_t { ended, not_started };
  Kind kind = Kind::ended;
  int rank = -1;
  int status = 0;  ///< ended: as waitpid gives it; not_started: errno
};

/// How to start a rank.
struct WorkerSpec {
  std::vector<std::string> environment{};
  int standard_input = -1;  ///< -1: /dev/null
  int standard_output = -1;
  int standard_error = -1;
};

struct KeeperSetup {
  std::vector<std::string> command{};  ///< the first element is a path
  std::vector<WorkerSpec> workers{};
  std::string private_folder{};
  sigset_t signal_mask{};  ///< for the ranks: the launcher's as it was at first
  rlimit open_files{};     ///< likewise
};

/// The launcher's end.
class Keeper {
 public:
  /// Forks the keeper, which starts all ranks at once. SIGCHLD must be blocked. Internal if the
  /// system refuses.
  explicit Keeper(const KeeperSetup& setup);
  /// Closes the channel, upon which the keeper kills the job and ends; waits for that, but not for
  /// a process that the kernel cannot kill.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  pid_t pid() const { return pid_; }
  int channel() const { return channel_.get(); }
  /// Quietly does nothing if the keeper has gone; the end of the channel tells.
  void send(KeeperCommand command);
  enum class Next { event, nothing, gone };
  Next receive(KeeperEvent& event);
  /// After the end of the channel: waits for the keeper's process and returns its status.
  int reap();

 private:
  UniqueFd channel_{};
  pid_t pid_ = -1;
};

}  // namespace tutti::launcher
