// `tutti run`: options to launcher::run.
#include "launcher/run.hpp"

#include "base/limits.hpp"
#include "cli/commands.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace tutti::cli {
namespace {

struct RunFlags {
  launcher::RunOptions options{};
  double timeout_s = 0;
  double shutdown_timeout_s = 10;
};

std::chrono::milliseconds seconds(const char* flag, double value) {
  constexpr double kYear = 365.0 * 24 * 3600;
  if (!(value >= 0 && value <= kYear)) {
    throw InvalidArgument(
        fmt::format("{} {} is not a number of seconds from 0 to a year", flag, value));
  }
  return std::chrono::milliseconds(static_cast<long>(value * 1000));
}

}  // namespace

Body configure_run(CLI::App& app) {
  const auto flags = std::make_shared<RunFlags>();
  launcher::RunOptions& options = flags->options;
  app.footer(
      "tutti run [OPTIONS] [--] PROGRAM [ARGS...]\n\n"
      "Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR,\n"
      "MASTER_PORT, TUTTI_SECRET_FILE, RANK_ID and RANK_SIZE. A PROGRAM ending in .py is run by\n"
      "python3. Exit status: that of the first rank to fail, 128 + signal if it was killed;\n"
      "124 after --timeout; 2 for a usage error; 126 or 127 if PROGRAM cannot be run.");
  app.add_option("-n,--ranks,--nproc-per-node", options.ranks,
                 "number of ranks (default: CPUs this process may use)")
      ->check(CLI::Range(1, limits::kMaxWorldSize));
  app.add_option("--nnodes", options.node_count, "number of hosts (this release: 1)");
  app.add_option("--node-rank", options.node_rank, "which of the hosts this is (this release: 0)");
  app.add_option("--master-addr", options.master_address,
                 "host of the store (this release: 127.0.0.1)");
  app.add_option("--master-port", options.master_port, "port of the store (default: a free one)");
  app.add_option("--max-restarts", options.max_restarts,
                 "restarts after a failure (this release: 0)");
  app.add_option("--log-dir", options.log_folder,
                 "folder for rank-R.stdout and rank-R.stderr with the exact bytes");
  app.add_option("--prefix", options.prefix,
                 "before each line; may hold {host}, {rank}, {local_rank}, {attempt}")
      ->capture_default_str();
  app.add_option("--filter-ranks", options.shown_ranks,
                 "show only these ranks, such as 0,2-3 (log files get all)");
  app.add_option("--timeout", flags->timeout_s, "stop the job after so many seconds");
  app.add_option("--shutdown-timeout", flags->shutdown_timeout_s,
                 "seconds between the request to stop and SIGKILL")
      ->capture_default_str();
  return [flags](std::span<const std::string> program) {
    launcher::RunOptions full = flags->options;
    full.timeout = seconds("--timeout", flags->timeout_s);
    full.shutdown_timeout = seconds("--shutdown-timeout", flags->shutdown_timeout_s);
    full.command.assign(program.begin(), program.end());
    try {
      return launcher::run(full);
    } catch (const launcher::ProgramError& error) {
      fmt::print(stderr, "tutti run: {}\n", error.what());
      return error.status();
    }
  };
}

}  // namespace tutti::cli
