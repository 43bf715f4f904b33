// What `tutti run` was asked for, and the checks that need nothing but the options.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::launcher {

struct RunOptions {
  int ranks = 0;  ///< 0: as many as there are CPUs in the affinity mask
  int node_count = 1;
  int node_rank = 0;
  std::string master_address{};  ///< empty: 127.0.0.1
  int master_port = 0;           ///< 0: pick a free one
  int max_restarts = 0;
  std::string log_folder{};                            ///< empty: no files
  std::chrono::milliseconds timeout{0};                ///< for the whole job; zero: none
  std::chrono::milliseconds shutdown_timeout{10'000};  ///< from the first signal to SIGKILL
  std::string prefix = "[{rank}] ";    ///< may hold {host}, {rank}, {local_rank} and {attempt}
  std::string shown_ranks{};           ///< such as "0,2-3": only these on the console; empty: all
  std::vector<std::string> command{};  ///< program and arguments
};

/// Number of CPUs this process may run on.
int available_cpus();

/// Fills in `ranks`. InvalidArgument for numbers out of range, Unsupported for several hosts and
/// for restarts.
RunOptions checked(RunOptions options);

/// "0,2-3" as a flag per rank; all true for an empty list. InvalidArgument for other text or a
/// rank that does not exist.
std::vector<bool> parse_rank_list(std::string_view list, int ranks);

/// What a prefix template may mention.
struct PrefixFacts {
  std::string host{};
  int rank = 0;
  int local_rank = 0;
  int attempt = 0;
};

/// Fills in a prefix template; InvalidArgument names an unknown {word}.
std::string expand_prefix(std::string_view pattern, const PrefixFacts& facts);

/// The program cannot be started; `status` is what a shell would return, 127 or 126.
class ProgramError : public std::runtime_error {
 public:
  ProgramError(const std::string& text, int status) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

/// The command that runs `command`: a program ending in .py is given to python3; the first element
/// becomes a path that exists. ProgramError if there is no such program.
std::vector<std::string> resolve_command(const std::vector<std::string>& command);

}  // namespace tutti::launcher
