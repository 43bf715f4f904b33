#include "launcher/launch.hpp"

#include "harness/pipe.hpp"
#include "launcher/process_tree.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tutti::test {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

using testing::make_pipe;
using testing::Pipe;

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tutti-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("mkdtemp failed");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Launch::Launch(LaunchOptions options) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  std::vector<std::string> words{TUTTI_COMMAND, "run"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv = pointers(words);
  std::vector<std::string> variables = options.environment;
  variables.push_back("TMPDIR=" + folder_.path().string());
  std::vector<char*> added = pointers(variables);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int input = options.standard_input >= 0 ? options.standard_input
                                                  : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output.write_end.get(), STDOUT_FILENO);
    ::dup2((options.merged ? output : error).write_end.get(), STDERR_FILENO);
    ::unsetenv("XDG_RUNTIME_DIR");
    for (std::size_t i = 0; i + 1 < added.size(); ++i) {
      ::putenv(added[i]);
    }
    ::setpgid(0, 0);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  ::setpgid(pid_, pid_);
  watch_ = open_pidfd(pid_);
  output_end_ = std::move(output.read_end);
  far_output_end_ = std::move(output.write_end);
  error_end_ = std::move(error.read_end);
}

Launch::~Launch() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    no_process_left();
  }
}

void Launch::signal(int number) const { ::kill(pid_, number); }

bool Launch::read_some(Deadline deadline) {
  std::array<pollfd, 2> ends{{{.fd = output_end_.get(), .events = POLLIN, .revents = 0},
                              {.fd = error_end_.get(), .events = POLLIN, .revents = 0}}};
  if (::poll(ends.data(), ends.size(), deadline.left_ms(now(), 60'000)) <= 0) {
    return false;
  }
  std::array<char, 65536> chunk{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    UniqueFd& end = i == 0 ? output_end_ : error_end_;
    if (!end.valid() || ends[i].revents == 0) {
      continue;
    }
    const ssize_t count = ::read(end.get(), chunk.data(), chunk.size());
    if (count <= 0) {
      end.reset();
    } else {
      (i == 0 ? output_ : error_).append(chunk.data(), static_cast<std::size_t>(count));
    }
  }
  return true;
}

bool Launch::wait_for_output(const std::string& text) {
  far_output_end_.reset();
  const Deadline deadline = Deadline::after(kPatience);
  while (output_.find(text) == std::string::npos) {
    if (!output_end_.valid() || !read_some(deadline)) {
      return false;
    }
  }
  return true;
}

bool Launch::ends_within(Duration limit) const {
  pollfd end{.fd = watch_.get(), .events = POLLIN, .revents = 0};
  const auto limit_ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  return ::poll(&end, 1, static_cast<int>(limit_ms)) > 0;
}

int Launch::wait() {
  far_output_end_.reset();
  const Deadline deadline = Deadline::after(kPatience);
  while (output_end_.valid() || error_end_.valid()) {
    if (!read_some(deadline)) {
      return -1;
    }
  }
  if (!ends_within(deadline.left(now()))) {
    return -1;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> Launch::leftovers() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

bool no_process_left(Duration limit) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &child, &before);
  const Deadline deadline = Deadline::after(limit);
  bool none = false;
  for (bool waiting = true; waiting;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    none = pid < 0 && errno == ECHILD;
    const Duration left = deadline.left(now());
    waiting = !none && (pid > 0 || left > Duration::zero());
    if (waiting && pid == 0) {
      const timespec pause{.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
      ::sigtimedwait(&child, nullptr, &pause);
    }
  }
  while (!none && ::waitpid(-1, nullptr, WNOHANG) >= 0) {
    launcher::signal_tree(::getpid(), {}, SIGKILL);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return none;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::size_t memory_of(pid_t pid, const std::string& field) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) {
      return std::stoul(line.substr(field.size() + 1)) * 1024;
    }
  }
  return 0;
}

}  // namespace tutti::test
