// Ranks as real processes: forked before any context or thread exists, watched by the test, killed
// at a time limit. A rank reports through its own pipe, so that what it said last survives even
// SIGKILL. Ranks meet through a TCP store that the test's process serves; it outlives every rank.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "plan/seat.hpp"

#include <tutti/tutti.hpp>

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

/// A rank's line to the test. Used in the rank's process, from one thread at a time.
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  /// Tells the test how far this rank is; see ProcessRanks::await_note.
  void note(std::string_view text) { write('n', text); }
  /// For waiting on the test: the store that ProcessRanks::store is another client of. (A
  /// context's own store has keys of its own.)
  Store& store() const { return *store_; }

 private:
  friend class ProcessRanks;
  void write(char kind, std::string_view text);

  int fd_;
  std::shared_ptr<Store> store_{};
};

struct ProcessRanksOptions {
  int size = 2;
  /// rank and world_size are filled in, and the store unless an init_method is given: then the
  /// ranks meet there, and Reporter::store is not to be used.
  InitOptions init{};
  /// What each process says it is; empty: process i is rank i of `size`. "Rank" below is then the
  /// number of the process.
  std::vector<Seat> seats{};
  /// After it ranks that have not ended are killed and reported as How::hang.
  std::chrono::milliseconds limit{60'000};
  /// Runs in the rank's process before it joins: environment variables and the like.
  std::function<void(int rank)> prepare{};
};

/// How a rank ended, and what it said.
struct RankOutcome {
  enum class How { returned, threw, signalled, exited, hang };
  How how = How::hang;
  std::string text{};               ///< what the body returned, or what the exception said
  std::optional<ErrorKind> kind{};  ///< threw a tutti::Error
  int peer = -1;                    ///< and that error's peer
  int status = 0;                   ///< the signal, or the exit status
  std::vector<std::string> notes{};
  TimePoint ended{};  ///< when the test's process saw it

  bool returned() const { return how == How::returned; }
};
/// "rank 2 was killed by signal 9; last note: case 17".
std::string describe(int rank, const RankOutcome& outcome);

class ProcessRanks {
 public:
  /// The text it returns is RankOutcome::text.
  using Body = std::function<std::string(Context&, Reporter&)>;

  /// Forks the ranks; each joins and runs `body`. The calling process must have one thread.
  ProcessRanks(ProcessRanksOptions options, Body body);
  /// Kills what is left.
  ~ProcessRanks();
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  int size() const { return options_.size; }
  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  /// SIGKILL, SIGSTOP, SIGCONT, ... ; nothing if the rank has ended.
  void send_signal(int rank, int signal);
  /// Waits until `rank` has noted `text`; false if it ended or the limit passed first.
  bool await_note(int rank, std::string_view text);
  /// Waits until all ranks have ended, or kills them at the limit.
  std::vector<RankOutcome> wait();
  /// Waits for these ranks only; the others go on.
  std::vector<RankOutcome> wait(std::span<const int> ranks);
  /// The store the ranks met through, as a client of this process.
  Store& store() const { return *store_; }

 private:
  struct Rank {
    pid_t pid = -1;
    UniqueFd process{};  ///< pidfd
    UniqueFd pipe{};     ///< our end
    std::string received{};
    RankOutcome outcome{};
    bool ended = false;
  };

  void fork_rank(int rank, std::uint16_t port, const Body& body);
  [[noreturn]] void run_rank(int rank, std::uint16_t port, int pipe, const Body& body) const;
  /// Waits for news of any rank, at most until the limit; false once it has passed.
  bool poll_once();
  void read_news(Rank& rank);
  static void take_record(Rank& rank, char kind, std::string text);
  void reap(Rank& rank);
  void kill_at_limit();

  ProcessRanksOptions options_;
  Deadline deadline_;
  std::vector<Rank> ranks_{};
  UniqueFd listener_{};  ///< of the store, until that takes it over
  std::shared_ptr<TCPStore> store_{};
};

/// Runs `body` on `size` processes and returns what they reported.
std::vector<RankOutcome> run_process_ranks(const ProcessRanksOptions& options,
                                           const ProcessRanks::Body& body);

}  // namespace tutti::testing
