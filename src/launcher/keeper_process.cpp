#include "launcher/keeper_process.hpp"

#include "launcher/private_folder.hpp"
#include "launcher/process_tree.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

namespace tutti::launcher {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) {
    result.push_back(const_cast<char*>(text.c_str()));  // exec's signature; it changes nothing
  }
  result.push_back(nullptr);
  return result;
}

// In the child: becomes the rank's program.
[[noreturn]] void become_worker(const KeeperSetup& setup, const WorkerSpec& worker, pid_t keeper) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) {  // it died before the line above
    ::_exit(128 + SIGKILL);
  }
  const int input = worker.standard_input >= 0 ? worker.standard_input
                                               : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(worker.standard_output, STDOUT_FILENO);
  ::dup2(worker.standard_error, STDERR_FILENO);
  if (input == STDIN_FILENO) {
    ::fcntl(STDIN_FILENO, F_SETFD, 0);  // dup2 onto itself keeps close-on-exec
  }
  ::setrlimit(RLIMIT_NOFILE, &setup.open_files);
  ::sigprocmask(SIG_SETMASK, &setup.signal_mask, nullptr);
  const std::vector<char*> arguments = pointers(setup.command);
  const std::vector<char*> environment = pointers(worker.environment);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  const int code = errno;
  const std::string text =
      fmt::format("tutti run: cannot run '{}': {}\n", setup.command[0], std::strerror(code));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(code == ENOENT ? kNotFound : kNotExecutable);
}

// Closes every descriptor from `first` on that is not in `kept` (sorted).
void close_others(int first, std::span<const int> kept) {
  const auto close_range = [](int low, int high) {
    if (low > high || ::syscall(SYS_close_range, low, high, 0) == 0) {
      return;
    }
    const int last = std::min(high, static_cast<int>(::sysconf(_SC_OPEN_MAX)));  // before Linux 5.9
    for (int fd = low; fd <= last; ++fd) {
      ::close(fd);
    }
  };
  for (const int fd : kept) {
    close_range(first, fd - 1);
    first = fd + 1;
  }
  close_range(first, std::numeric_limits<int>::max());
}

class KeeperLoop {
 public:
  KeeperLoop(const KeeperSetup& setup, UniqueFd channel)
      : setup_(setup), channel_(std::move(channel)), ranks_(setup.workers.size(), 0) {}

  void run() {
    watch_children();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      start(rank);
    }
    let_go_of_descriptors();
    while (!(finishing_ && childless_)) {
      wait_for_something();
      reap();
      obey();
      if (killing_) {
        signal_tree(::getpid(), living_ranks(), SIGKILL);
      }
    }
  }

 private:
  void watch_children() {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    signals_.reset(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void start(std::size_t rank) {
    const pid_t keeper = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      become_worker(setup_, setup_.workers[rank], keeper);
    }
    if (pid < 0) {
      tell({.kind = KeeperEvent::Kind::not_started,
            .rank = static_cast<int>(rank),
            .status = errno});
      return;
    }
    ::setpgid(pid, pid);  // both sides do it, so that it is done whoever runs first
    ranks_[rank] = pid;
    childless_ = false;
  }

  // Whoever reads the ranks' output, or waits for the launcher's own output to end, must not wait
  // for the keeper.
  void let_go_of_descriptors() {
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(nothing.get(), fd);
    }
    std::array<int, 2> kept{channel_.get(), signals_.get()};
    std::sort(kept.begin(), kept.end());
    close_others(STDERR_FILENO + 1, kept);
  }

  void wait_for_something() {
    std::array<pollfd, 2> watched{{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = channel_.get(), .events = POLLIN, .revents = 0}}};
    // While killing, look again soon: a process may have been forked while the tree was read.
    constexpr int kLookAgainMs = 20;
    constexpr int kHeartbeatMs = 1000;
    ::poll(watched.data(), watched.size(), killing_ ? kLookAgainMs : kHeartbeatMs);
    signalfd_siginfo ignored{};
    while (::read(signals_.get(), &ignored, sizeof(ignored)) > 0) {
    }
  }

  void reap() {
    // A rank killed by a signal is more likely the cause than one that gave up at the same time.
    std::vector<KeeperEvent> killed;
    std::vector<KeeperEvent> exited;
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == EINTR) {
        continue;
      }
      childless_ = pid < 0;
      if (pid <= 0) {
        break;
      }
      const auto rank = std::find(ranks_.begin(), ranks_.end(), pid);
      if (rank != ranks_.end()) {
        *rank = 0;
        (WIFSIGNALED(status) ? killed : exited)
            .push_back({.kind = KeeperEvent::Kind::ended,
                        .rank = static_cast<int>(rank - ranks_.begin()),
                        .status = status});
      }
    }
    for (const auto& events : {killed, exited}) {
      std::for_each(events.begin(), events.end(), [this](const KeeperEvent& e) { tell(e); });
    }
  }

  void obey() {
    while (channel_.valid()) {
      KeeperCommand command;
      const ssize_t length = ::recv(channel_.get(), &command, sizeof(command), MSG_DONTWAIT);
      if (length < 0 && errno == EINTR) {
        continue;
      }
      if (length < 0 && errno == EAGAIN) {
        return;
      }
      if (length != static_cast<ssize_t>(sizeof(command))) {
        launcher_is_gone();
        return;
      }
      execute(command);
    }
  }

  void execute(const KeeperCommand& command) {
    switch (command.kind) {
      case KeeperCommand::Kind::signal_ranks:
        for (const pid_t pid : living_ranks()) {
          ::kill(pid, command.signal);
        }
        break;
      case KeeperCommand::Kind::signal_tree:
        signal_tree(::getpid(), living_ranks(), command.signal);
        signal_tree(::getpid(), living_ranks(), SIGCONT);  // a stopped process could not obey
        break;
      case KeeperCommand::Kind::kill_tree:
        killing_ = true;
        break;
      case KeeperCommand::Kind::finish:
        finishing_ = true;
        break;
    }
  }

  void tell(const KeeperEvent& event) {
    while (channel_.valid() && ::send(channel_.get(), &event, sizeof(event), MSG_NOSIGNAL) < 0) {
      if (errno != EINTR) {
        launcher_is_gone();
      }
    }
  }

  void launcher_is_gone() {
    channel_.reset();
    killing_ = true;
    finishing_ = true;
  }

  std::vector<pid_t> living_ranks() const {
    std::vector<pid_t> living;
    std::copy_if(ranks_.begin(), ranks_.end(), std::back_inserter(living),
                 [](pid_t pid) { return pid > 0; });
    return living;
  }

  const KeeperSetup& setup_;
  UniqueFd channel_;
  UniqueFd signals_{};
  std::vector<pid_t> ranks_;  // 0: not started, or waited for
  bool childless_ = true;
  bool killing_ = false;
  bool finishing_ = false;
};

}  // namespace

void keeper_process(const KeeperSetup& setup, UniqueFd channel) {
  sigset_t every_signal;
  sigfillset(&every_signal);
  ::sigprocmask(SIG_SETMASK, &every_signal, nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "rank-keeper");  // so that `killall -9 tutti` leaves it to its work
  int status = 0;
  try {
    KeeperLoop(setup, std::move(channel)).run();
  } catch (const std::exception&) {
    status = 1;  // out of memory: the ranks follow by PR_SET_PDEATHSIG
  }
  PrivateFolder::remove(setup.private_folder);
  ::_exit(status);
}

}  // namespace tutti::launcher
