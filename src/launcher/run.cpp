// Order matters: everything the keeper and the ranks need exists before the fork, and the store's
// thread starts after it, so that the fork happens in a process with one thread. Ranks that connect
// before the store is up wait in the backlog of its listening socket.
#include "launcher/run.hpp"

#include "base/unique_fd.hpp"
#include "launcher/forwarder.hpp"
#include "launcher/keeper.hpp"
#include "launcher/private_folder.hpp"
#include "launcher/report.hpp"
#include "launcher/supervisor.hpp"
#include "launcher/worker_environment.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"

#include <tutti/store.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <memory>

namespace tutti::launcher {
namespace {

constexpr std::string_view kHost = "127.0.0.1";

// Descriptors 0, 1 and 2 are open, so that no pipe of ours lands there.
void open_standard_descriptors() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd < 0 || fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

// Two pipes per rank and the clients of the store need more than the usual 1024.
rlimit raise_open_files() {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

struct Signals {
  UniqueFd fd{};
  sigset_t mask_before{};
};

// SIGHUP stays ignored under nohup. SIGPIPE is blocked: a reader that went away is an error code.
Signals take_signals() {
  sigset_t forwarded;
  sigemptyset(&forwarded);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&forwarded, signal);
  }
  struct sigaction hang_up {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) {
    sigaddset(&forwarded, SIGHUP);
  }
  sigset_t blocked = forwarded;
  sigaddset(&blocked, SIGPIPE);
  sigaddset(&blocked, SIGCHLD);
  Signals signals;
  ::sigprocmask(SIG_BLOCK, &blocked, &signals.mask_before);
  signals.fd.reset(::signalfd(-1, &forwarded, SFD_CLOEXEC | SFD_NONBLOCK));
  return signals;
}

KeeperSetup make_setup(const RunOptions& options, const Forwarder& forwarder, const JobFacts& job) {
  KeeperSetup setup{.command = resolve_command(options.command)};
  const std::vector<std::string> inherited = inherited_environment();
  for (int rank = 0; rank < options.ranks; ++rank) {
    // Rank 0 may read what is piped in. A terminal would stop it: it is in a background group.
    const bool reads = rank == 0 && ::isatty(STDIN_FILENO) == 0;
    setup.workers.push_back({.environment = worker_environment(inherited, job, rank),
                             .standard_input = reads ? STDIN_FILENO : -1,
                             .standard_output = forwarder.far_output(rank),
                             .standard_error = forwarder.far_error(rank)});
  }
  return setup;
}

}  // namespace

int run(const RunOptions& requested) {
  const RunOptions options = checked(requested);
  (void)resolve_command(options.command);  // before anything is made
  open_standard_descriptors();
  const rlimit open_files = raise_open_files();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // for the day the keeper is killed
  const Signals signals = take_signals();

  const std::string secret = random_token(32);
  const PrivateFolder folder(secret);
  UniqueFd listener =
      listen_tcp(std::string(kHost), static_cast<std::uint16_t>(options.master_port));
  const JobFacts job{.ranks = options.ranks,
                     .port = local_address(listener.get()).port(),
                     .secret_file = folder.secret_file(),
                     .job_id = random_token(8)};
  Forwarder forwarder(options);
  KeeperSetup setup = make_setup(options, forwarder, job);
  setup.private_folder = folder.path();
  setup.signal_mask = signals.mask_before;
  setup.open_files = open_files;
  Keeper keeper(setup);
  forwarder.release_far_ends();

  const std::shared_ptr<TCPStore> store = TCPStore::open({.host = std::string(kHost),
                                                          .port = job.port,
                                                          .is_server = true,
                                                          .world_size = options.ranks,
                                                          .listen_fd = listener.release(),
                                                          .secret = secret});
  return exit_status(Supervisor(options, keeper, forwarder, signals.fd.get()).run());
}

}  // namespace tutti::launcher
