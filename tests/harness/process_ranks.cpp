#include "harness/process_ranks.hpp"

#include "base/ensure.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

namespace tutti::testing {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kStatusThrew = 1;
constexpr int kStatusNoJoin = 2;
/// A record on the pipe: one byte of kind, four of length, the text.
constexpr std::size_t kRecordHead = 5;

/// A listening socket on a port that the system picks, made before the forks: nobody can take the
/// port, and ranks that connect early wait in its queue.
UniqueFd listen_on_loopback(std::uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool listening = fd.valid() && ::bind(fd.get(), generic, length) == 0 &&
                         ::listen(fd.get(), SOMAXCONN) == 0 &&
                         ::getsockname(fd.get(), generic, &length) == 0;
  ensure(listening, "a socket listens on the loopback address");
  port = ntohs(address.sin_port);
  return fd;
}

std::string error_text(const Error& error) {
  return fmt::format("{} {} {}", static_cast<int>(error.kind()), error.peer(), error.what());
}

}  // namespace

void Reporter::write(char kind, std::string_view text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string record(kRecordHead, kind);
  std::memcpy(record.data() + 1, &length, sizeof(length));
  record += text;
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno != EINTR) {
      return;  // the test has gone; so will this rank
    }
    left.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

std::string describe(int rank, const RankOutcome& outcome) {
  const std::string last =
      outcome.notes.empty() ? "" : fmt::format("; last note: {}", outcome.notes.back());
  switch (outcome.how) {
    case RankOutcome::How::returned:
      return fmt::format("rank {} returned: {}", rank, outcome.text);
    case RankOutcome::How::threw:
      return fmt::format("rank {} threw: {}{}", rank, outcome.text, last);
    case RankOutcome::How::signalled:
      return fmt::format("rank {} was killed by signal {}{}", rank, outcome.status, last);
    case RankOutcome::How::exited:
      return fmt::format("rank {} exited with status {}{}", rank, outcome.status, last);
    case RankOutcome::How::hang:
      return fmt::format("rank {} hung and was killed{}", rank, last);
  }
  return {};
}

ProcessRanks::ProcessRanks(ProcessRanksOptions options, Body body)
    : options_(std::move(options)),
      deadline_(Deadline::after(options_.limit)),
      ranks_(static_cast<std::size_t>(options_.size)) {
  std::uint16_t port = 0;
  listener_ = listen_on_loopback(port);
  std::fflush(nullptr);  // or the ranks would print it again
  for (int rank = 0; rank < options_.size; ++rank) {
    fork_rank(rank, port, body);
  }
  store_ = TCPStore::open({.host = kLoopback,
                           .port = port,
                           .is_server = true,
                           .listen_fd = listener_.release(),
                           .secret = ""});
}

ProcessRanks::~ProcessRanks() {
  for (Rank& rank : ranks_) {
    if (!rank.ended) {
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
  }
}

void ProcessRanks::fork_rank(int rank, std::uint16_t port, const Body& body) {
  Rank& slot = ranks_[static_cast<std::size_t>(rank)];
  std::array<int, 2> ends{};
  ensure(::pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe can be made");
  slot.pipe.reset(ends[0]);
  const UniqueFd other(ends[1]);
  slot.pid = ::fork();
  ensure(slot.pid >= 0, "a rank can be forked");
  if (slot.pid == 0) {
    listener_.reset();
    for (Rank& older : ranks_) {
      older.pipe.reset();
      older.process.reset();
    }
    run_rank(rank, port, other.get(), body);
  }
  slot.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, slot.pid, 0)));
  ensure(slot.process.valid(), "a rank's process can be watched");
  ::fcntl(slot.pipe.get(), F_SETFL, O_NONBLOCK);
}

void ProcessRanks::run_rank(int rank, std::uint16_t port, int pipe, const Body& body) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  Reporter reporter(pipe);
  int status = kStatusNoJoin;
  try {
    if (options_.prepare) {
      options_.prepare(rank);
    }
    InitOptions init = options_.init;
    if (init.init_method.empty()) {
      init.store = TCPStore::open({.host = kLoopback, .port = port, .secret = ""});
      reporter.store_ = init.store->clone();
    }
    const Seat seat = options_.seats.empty() ? Seat{.rank = rank, .size = options_.size}
                                             : options_.seats[static_cast<std::size_t>(rank)];
    init.rank = seat.rank;
    init.world_size = seat.size;
    const std::unique_ptr<Context> context = Context::create(init);
    status = kStatusThrew;
    reporter.write('r', body(*context, reporter));
    status = 0;
  } catch (const Error& error) {
    reporter.write('e', error_text(error));
  } catch (const std::exception& error) {
    reporter.write('x', error.what());
  }
  std::fflush(nullptr);
  ::_exit(status);  // no destructors of the test's process
}

void ProcessRanks::send_signal(int rank, int signal) {
  Rank& slot = ranks_[static_cast<std::size_t>(rank)];
  if (!slot.ended) {
    ::kill(slot.pid, signal);
  }
}

void ProcessRanks::take_record(Rank& rank, char kind, std::string text) {
  RankOutcome& outcome = rank.outcome;
  if (kind == 'n') {
    outcome.notes.push_back(std::move(text));
    return;
  }
  outcome.how = kind == 'r' ? RankOutcome::How::returned : RankOutcome::How::threw;
  outcome.text = std::move(text);
  if (kind == 'e') {
    std::size_t end = 0;
    outcome.kind = static_cast<ErrorKind>(std::stoi(outcome.text, &end));
    outcome.text.erase(0, end);
    outcome.peer = std::stoi(outcome.text, &end);
    outcome.text.erase(0, end + 1);
  }
}

void ProcessRanks::read_news(Rank& rank) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = ::read(rank.pipe.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      break;
    }
    rank.received.append(buffer.data(), static_cast<std::size_t>(count));
  }
  for (;;) {
    std::uint32_t length = 0;
    if (rank.received.size() < kRecordHead) {
      return;
    }
    std::memcpy(&length, rank.received.data() + 1, sizeof(length));
    if (rank.received.size() < kRecordHead + length) {
      return;
    }
    take_record(rank, rank.received[0], rank.received.substr(kRecordHead, length));
    rank.received.erase(0, kRecordHead + length);
  }
}

void ProcessRanks::reap(Rank& rank) {
  read_news(rank);  // what it wrote before it ended
  int status = 0;
  ::waitpid(rank.pid, &status, 0);
  rank.ended = true;
  rank.outcome.ended = std::chrono::steady_clock::now();
  if (WIFSIGNALED(status)) {
    rank.outcome.how = RankOutcome::How::signalled;
    rank.outcome.status = WTERMSIG(status);
  } else if (rank.outcome.how == RankOutcome::How::hang) {
    rank.outcome.how = RankOutcome::How::exited;  // without a word
    rank.outcome.status = WEXITSTATUS(status);
  }
}

bool ProcessRanks::poll_once() {
  std::vector<pollfd> entries;
  std::vector<Rank*> owners;
  for (Rank& rank : ranks_) {
    if (!rank.ended) {
      entries.push_back({.fd = rank.process.get(), .events = POLLIN, .revents = 0});
      entries.push_back({.fd = rank.pipe.get(), .events = POLLIN, .revents = 0});
      owners.push_back(&rank);
    }
  }
  constexpr int kLongestPollMs = 60'000;
  const auto now = std::chrono::steady_clock::now();
  if (::poll(entries.data(), entries.size(), deadline_.left_ms(now, kLongestPollMs)) > 0) {
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (entries[2 * i].revents != 0) {
        reap(*owners[i]);
      } else if (entries[2 * i + 1].revents != 0) {
        read_news(*owners[i]);
      }
    }
    return true;
  }
  return !deadline_.passed(std::chrono::steady_clock::now());
}

void ProcessRanks::kill_at_limit() {
  for (Rank& rank : ranks_) {
    if (!rank.ended) {
      ::kill(rank.pid, SIGKILL);
      reap(rank);
      rank.outcome.how = RankOutcome::How::hang;
    }
  }
}

bool ProcessRanks::await_note(int rank, std::string_view text) {
  const Rank& slot = ranks_[static_cast<std::size_t>(rank)];
  const auto noted = [&] {
    const auto& notes = slot.outcome.notes;
    return std::find(notes.begin(), notes.end(), text) != notes.end();
  };
  while (!noted() && !slot.ended && poll_once()) {
  }
  return noted();
}

std::vector<RankOutcome> ProcessRanks::wait() {
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) {
    all.push_back(rank);
  }
  return wait(all);
}

std::vector<RankOutcome> ProcessRanks::wait(std::span<const int> ranks) {
  const auto slot = [&](int rank) -> Rank& { return ranks_[static_cast<std::size_t>(rank)]; };
  const auto ended = [&](int rank) { return slot(rank).ended; };
  while (!std::all_of(ranks.begin(), ranks.end(), ended)) {
    if (!poll_once()) {
      kill_at_limit();
    }
  }
  std::vector<RankOutcome> outcomes;
  for (const int rank : ranks) {
    outcomes.push_back(slot(rank).outcome);
  }
  return outcomes;
}

std::vector<RankOutcome> run_process_ranks(const ProcessRanksOptions& options,
                                           const ProcessRanks::Body& body) {
  return ProcessRanks(options, body).wait();
}

}  // namespace tutti::testing
