#include "launcher/report.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <map>

namespace tutti::launcher {
namespace {

// A rank that ended as we asked it to, not by itself.
bool stopped_by_us(const JobOutcome& outcome, const RankEnd& end) {
  if (!end.ended || !end.after_stop || !WIFSIGNALED(end.status)) {
    return false;
  }
  const int signal = WTERMSIG(end.status);
  return signal == SIGTERM || signal == SIGKILL || signal == outcome.signal;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("{}, {}{}", signal_name(signal), -signal,
                       WCOREDUMP(status) ? ", core dumped" : "");
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// "rank 0 (SIGTERM, -15), ranks 2-5 (exit code 1)": ranks that ended alike are put together.
class RankGroups {
 public:
  void add(int rank, const std::string& how) { groups_[how].push_back(rank); }
  bool empty() const { return groups_.empty(); }
  std::string text() const {
    std::string result;
    for (const auto& [how, ranks] : groups_) {
      result +=
          fmt::format("{}{} {}{}", result.empty() ? "" : ", ", ranks.size() == 1 ? "rank" : "ranks",
                      intervals(ranks), how.empty() ? "" : " (" + how + ")");
    }
    return result;
  }

 private:
  static std::string intervals(const std::vector<int>& ranks) {
    std::string result;
    for (std::size_t i = 0; i < ranks.size();) {
      std::size_t last = i;
      while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
        ++last;
      }
      result += result.empty() ? "" : ",";
      result += last == i ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
      i = last + 1;
    }
    return result;
  }
  std::map<std::string, std::vector<int>> groups_{};
};

std::string describe_cause(const JobOutcome& outcome) {
  switch (outcome.cause) {
    case Cause::rank_failed:
      return fmt::format(
          "rank {} failed first: {}", outcome.first_rank,
          describe(outcome.ranks[static_cast<std::size_t>(outcome.first_rank)].status));
    case Cause::not_started:
      return fmt::format("rank {} could not be started: {}", outcome.first_rank, outcome.detail);
    case Cause::signal:
      return fmt::format("the launcher was told to stop by {}", signal_name(outcome.signal));
    case Cause::timeout:
      return fmt::format("the job took longer than --timeout {:g} s",
                         static_cast<double>(outcome.timeout.count()) / 1000);
    case Cause::keeper_lost:
      return "the launcher's keeper process was killed";
    case Cause::none:
      break;
  }
  return "";
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

int exit_status(const JobOutcome& outcome) {
  switch (outcome.cause) {
    case Cause::rank_failed:
      return shell_status(outcome.ranks[static_cast<std::size_t>(outcome.first_rank)].status);
    case Cause::not_started:
      return 1;
    case Cause::timeout:
      return 124;
    case Cause::keeper_lost:
      return 128 + SIGKILL;
    case Cause::none:
      return 0;
    case Cause::signal:
      break;
  }
  bool all_well = true;
  for (const RankEnd& end : outcome.ranks) {
    const bool well = end.ended && end.status == 0;
    if (end.ended && !well && !stopped_by_us(outcome, end)) {
      return shell_status(end.status);
    }
    all_well = all_well && well;
  }
  return all_well ? 0 : 128 + outcome.signal;
}

std::string report(const JobOutcome& outcome) {
  RankGroups stopped;
  RankGroups failed;
  RankGroups well;
  RankGroups unknown;
  for (std::size_t i = 0; i < outcome.ranks.size(); ++i) {
    const RankEnd& end = outcome.ranks[i];
    const int rank = static_cast<int>(i);
    if (rank == outcome.first_rank) {
      continue;
    }
    if (!end.ended) {
      unknown.add(rank, "");
    } else if (end.status == 0) {
      well.add(rank, "");
    } else if (stopped_by_us(outcome, end)) {
      stopped.add(rank, describe(end.status));
    } else {
      failed.add(rank, describe(end.status));
    }
  }
  std::string text = describe_cause(outcome);
  const auto append = [&text](std::string_view what, const RankGroups& ranks) {
    if (!ranks.empty()) {
      text += fmt::format("; {}: {}", what, ranks.text());
    }
  };
  if (outcome.cause == Cause::none) {
    return "";
  }
  append("failed as well", failed);
  append(outcome.killed ? "stopped by the launcher, after the grace period with SIGKILL"
                        : "stopped by the launcher",
         stopped);
  append("ended with 0", well);
  append("end not known", unknown);
  return text;
}

}  // namespace tutti::launcher
