#include "launcher/options.hpp"

#include "base/limits.hpp"
#include "rendezvous/environment.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace tutti::launcher {
namespace {

void refuse_later_features(const RunOptions& options) {
  constexpr std::string_view kOneHost =
      "this release starts jobs on one host only; leave it out, or use mpirun, srun or torchrun";
  if (options.node_count != 1) {
    throw Unsupported(fmt::format("--nnodes {}: {}", options.node_count, kOneHost));
  }
  if (options.node_rank != 0) {
    throw Unsupported(fmt::format("--node-rank {}: {}", options.node_rank, kOneHost));
  }
  if (!options.master_address.empty() && options.master_address != "127.0.0.1" &&
      options.master_address != "localhost") {
    throw Unsupported(
        fmt::format("--master-addr {}: the store of a job on one host is served on "
                    "127.0.0.1; {}",
                    options.master_address, kOneHost));
  }
  if (options.max_restarts != 0) {
    throw Unsupported(fmt::format(
        "--max-restarts {}: this release does not restart ranks; leave it out or pass 0",
        options.max_restarts));
  }
}

void check_range(std::string_view what, long value, long low, long high) {
  if (value < low || value > high) {
    throw InvalidArgument(fmt::format("{} {} is not in {}..{}", what, value, low, high));
  }
}

bool is_program(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string find_in_path(const std::string& name) {
  const std::string path = process_environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::size_t start = 0;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::string folder = path.substr(start, end - start);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) {
      return candidate;
    }
    start = end + 1;
  }
  std::string hint;
  if (is_program("./" + name)) {
    hint = fmt::format("; there is one in the current folder: write ./{}", name);
  }
  throw ProgramError(fmt::format("program '{}' is not in PATH{}", name, hint), 127);
}

}  // namespace

int available_cpus() {
  // The mask is longer than cpu_set_t on hosts with more than 1024 CPUs.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 18); cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(cpus));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const int result = ::sched_getaffinity(0, bytes, mask);
    const int count = result == 0 ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0) {
      return count;
    }
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

RunOptions checked(RunOptions options) {
  refuse_later_features(options);
  if (options.command.empty()) {
    throw InvalidArgument("no program given; expected tutti run [OPTIONS] [--] PROGRAM ARGS...");
  }
  if (options.ranks == 0) {
    options.ranks = available_cpus();
  }
  constexpr long kYearInMs = 365L * 24 * 3600 * 1000;
  check_range("-n", options.ranks, 1, limits::kMaxWorldSize);
  check_range("--master-port", options.master_port, 0, 65535);
  check_range("--timeout in milliseconds", options.timeout.count(), 0, kYearInMs);
  check_range("--shutdown-timeout in milliseconds", options.shutdown_timeout.count(), 0, kYearInMs);
  (void)parse_rank_list(options.shown_ranks, options.ranks);
  (void)expand_prefix(options.prefix, {});
  return options;
}

std::vector<bool> parse_rank_list(std::string_view list, int ranks) {
  std::vector<bool> chosen(static_cast<std::size_t>(ranks), list.empty());
  std::string_view left = list;
  while (!left.empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, comma);
    left = comma == left.size() ? std::string_view{} : left.substr(comma + 1);
    const std::size_t dash = std::min(item.find('-'), item.size());
    const std::string what = fmt::format("a rank of the list '{}'", list);
    const int first = parse_bounded(what, item.substr(0, dash), 0, ranks - 1);
    const int last =
        dash == item.size() ? first : parse_bounded(what, item.substr(dash + 1), first, ranks - 1);
    std::fill(chosen.begin() + first, chosen.begin() + last + 1, true);
  }
  return chosen;
}

std::string expand_prefix(std::string_view pattern, const PrefixFacts& facts) {
  std::string text;
  while (!pattern.empty()) {
    const std::size_t open = std::min(pattern.find('{'), pattern.size());
    text += pattern.substr(0, open);
    pattern.remove_prefix(open);
    if (pattern.empty()) {
      break;
    }
    const std::size_t close = pattern.find('}');
    const std::string_view word = pattern.substr(1, std::min(close, pattern.size()) - 1);
    if (close == std::string_view::npos ||
        (word != "host" && word != "rank" && word != "local_rank" && word != "attempt")) {
      throw InvalidArgument(fmt::format(
          "--prefix has the unknown field '{}'; known are {{host}}, {{rank}}, {{local_rank}} and "
          "{{attempt}}",
          pattern.substr(0, close == std::string_view::npos ? close : close + 1)));
    }
    text += word == "host"         ? facts.host
            : word == "rank"       ? std::to_string(facts.rank)
            : word == "local_rank" ? std::to_string(facts.local_rank)
                                   : std::to_string(facts.attempt);
    pattern.remove_prefix(close + 1);
  }
  return text;
}

std::vector<std::string> resolve_command(const std::vector<std::string>& command) {
  std::vector<std::string> resolved = command;
  if (command.front().ends_with(".py")) {
    if (::access(command.front().c_str(), R_OK) != 0) {
      throw ProgramError(fmt::format("cannot read the program '{}'", command.front()), 127);
    }
    resolved.insert(resolved.begin(), "python3");
  }
  std::string& program = resolved.front();
  if (program.find('/') == std::string::npos) {
    program = find_in_path(program);
  } else if (!is_program(program)) {
    const bool exists = ::access(program.c_str(), F_OK) == 0;
    throw ProgramError(fmt::format("program '{}' {}", program,
                                   exists ? "is not an executable file" : "does not exist"),
                       exists ? 126 : 127);
  }
  return resolved;
}

}  // namespace tutti::launcher
