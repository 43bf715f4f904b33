#include "cli/bench_ranks.hpp"

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::cli {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::size_t kSecretBytes = 32;
constexpr std::chrono::seconds kGrace{15};  // from the first failure until the rest is killed
constexpr int kLook_ms = 1000;
constexpr int kUsageError = 2;

struct Rank {
  pid_t pid = -1;
  UniqueFd watch{};  ///< pidfd; closed once it has ended
};

/// The children; ends those that are left.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    kill_all();
    while (collect() > 0) {
    }
  }

  void add(pid_t pid) {
    const long watch = ::syscall(SYS_pidfd_open, pid, 0);
    ranks_.push_back({.pid = pid, .watch = UniqueFd(static_cast<int>(watch))});
  }
  /// Waits until all have ended; the first failure's status.
  int wait() {
    Deadline deadline;
    while (collect() > 0) {
      const TimePoint now = std::chrono::steady_clock::now();
      if (status_ != 0 && !failed_) {
        failed_ = true;
        deadline = Deadline(now, kGrace);
      }
      if (failed_ && deadline.passed(now)) {
        kill_all();
      }
    }
    return status_;
  }

 private:
  void kill_all() {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) {
        ::kill(rank.pid, SIGKILL);
      }
    }
  }
  /// Waits a moment for one to end, takes in all that have; how many are left.
  int collect();

  std::vector<Rank> ranks_{};
  int status_ = 0;
  bool failed_ = false;
};

int Ranks::collect() {
  std::vector<pollfd> ends;
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) {
      ends.push_back({.fd = rank.watch.get(), .events = POLLIN, .revents = 0});
    }
  }
  if (!ends.empty()) {
    ::poll(ends.data(), ends.size(), kLook_ms);
  }
  int left = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    int status = 0;
    if (rank.pid <= 0 || ::waitpid(rank.pid, &status, WNOHANG) == 0) {
      left += rank.pid > 0 ? 1 : 0;
      continue;
    }
    rank = {};
    if (WIFSIGNALED(status) && status_ == 0) {
      fmt::print(stderr, "rank {} was killed by signal {} ({})\n", i, WTERMSIG(status),
                 ::strsignal(WTERMSIG(status)));
    }
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    status_ = status_ == 0 ? code : status_;
  }
  return left;
}

/// What the children have to say, a message each; printed once where all say the same.
class Complaints {
 public:
  Complaints() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw Internal("pipe2: " + errno_text(errno));
    }
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
  }
  /// In the child. At most PIPE_BUF bytes, so that messages never mix; dropped if the pipe is full.
  void write(std::string text) const {
    text.resize(std::min<std::size_t>(text.size(), PIPE_BUF - 1));
    text.push_back('\0');
    [[maybe_unused]] const ssize_t written = ::write(write_end_.get(), text.data(), text.size());
  }
  void print(const std::string& command) const {
    std::string all;
    std::array<char, PIPE_BUF> chunk{};
    for (ssize_t count = 1; count > 0;) {
      count = ::read(read_end_.get(), chunk.data(), chunk.size());
      all.append(chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    all.resize(all.rfind('\0') + 1);  // nothing, or whole messages
    std::vector<std::string> said;
    for (std::size_t at = 0; at < all.size(); at = all.find('\0', at) + 1) {
      const std::string text = all.c_str() + at;
      if (std::find(said.begin(), said.end(), text) == said.end()) {
        fmt::print(stderr, "{}: {}\n", command, text);
        said.push_back(text);
      }
    }
  }

 private:
  UniqueFd read_end_{};
  UniqueFd write_end_{};
};

int run_body(const RankBody& body, const InitOptions& join, const Complaints& complaints) {
  try {
    return body(join);
  } catch (const InvalidArgument& error) {
    complaints.write(error.what());
    return kUsageError;
  } catch (const Unsupported& error) {
    complaints.write(fmt::format("not supported: {}", error.what()));
    return kUsageError;
  } catch (const std::exception& error) {
    complaints.write(error.what());
    return 1;
  }
}

}  // namespace

int run_ranks(const std::string& command, int ranks, const RankBody& body) {
  UniqueFd listener = listen_tcp(kLoopback, 0);
  TCPStoreOptions store{.host = kLoopback,
                        .port = local_address(listener.get()).port(),
                        .secret = random_token(kSecretBytes)};
  const Complaints complaints;
  const pid_t parent = ::getpid();
  Ranks children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::fflush(nullptr);  // or the child would print it again
    const pid_t pid = ::fork();
    if (pid < 0) {
      throw Internal(fmt::format("fork of rank {}: {}", rank, errno_text(errno)));
    }
    if (pid > 0) {
      children.add(pid);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    listener.reset();
    ::setenv("TUTTI_SECRET", store.secret->c_str(), 1);  // of the connections between ranks
    const int status = run_body(
        [&](const InitOptions& join) {
          InitOptions options = join;
          options.store = TCPStore::open(store);
          return body(options);
        },
        {.rank = rank, .world_size = ranks}, complaints);
    std::fflush(nullptr);
    ::_exit(status);
  }
  store.is_server = true;
  store.listen_fd = listener.release();
  const auto server = TCPStore::open(store);  // the first thread here starts after the last fork
  const int status = children.wait();
  complaints.print(command);
  return status;
}

}  // namespace tutti::cli
