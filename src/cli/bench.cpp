// `tutti bench`: measures the collectives, on ranks of its own or within the job that it was
// started in.
#include "base/limits.hpp"
#include "cli/bench_canary.hpp"
#include "cli/bench_compare.hpp"
#include "cli/bench_measure.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/bench_report.hpp"
#include "cli/bench_tune.hpp"
#include "cli/commands.hpp"
#include "rendezvous/environment.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace tutti::cli {
namespace {

// Long for an operation of 256 MiB on crowded CPUs, short for somebody who watches a hang.
constexpr std::chrono::minutes kOperationTimeout{5};

std::string facts_of(const BenchOptions& options, const Context& context) {
  const int ranks = context.world().size();
  std::string text =
      fmt::format("{} rank{}, backend {}", ranks, ranks == 1 ? "" : "s", context.world().backend());
  text += fmt::format(", transport {}", options.transport.empty() ? "auto" : options.transport);
  if (!options.algorithm.empty()) {
    text += fmt::format(", algorithm {} where it fits", options.algorithm);
  }
  return text + fmt::format(", {} loops in {} s per size", options.reps, options.time_s);
}

void name_left_out(const BenchOptions& options, int ranks) {
  for (const BenchOp* row : options.ops) {
    if (row->sizing == Sizing::pairs && ranks % 2 != 0) {
      fmt::print(stderr, "tutti bench: {} is left out: it needs an even number of ranks, not {}\n",
                 row->name, ranks);
    }
  }
}

/// One rank. `seat`: its number among the ranks of this host, to pin it; absent: never.
int run_rank(const BenchOptions& options, InitOptions join, std::optional<std::size_t> seat) {
  const std::vector<int> cpus = allowed_cpus();
  if (seat && *seat < cpus.size()) {
    restrict_to({cpus[*seat]});
  }
  join.backend = options.backend;
  join.transport = options.transport;
  join.timeout = kOperationTimeout;
  const std::unique_ptr<Context> context = Context::create(join);
  Bench bench{.options = options,
              .context = *context,
              .control = context->world(),
              .group = context->world(),
              .cpus = cpus};
  if (!options.algorithm.empty()) {
    bench.group = context->new_group({}, {.algorithm = options.algorithm});
  }
  if (options.tune) {
    const std::vector<TuningRow> rows = tune(bench);
    if (bench.group.rank() == 0) {
      write_table(options.out, rows);
    }
    return 0;
  }
  std::optional<Report> report;
  if (bench.group.rank() == 0) {
    report.emplace(options).begin(facts_of(options, *context));
    name_left_out(options, bench.group.size());
  }
  bool wrong = false;
  measure_all(bench, [&](const Row& row) {
    wrong = wrong || row.wrong != 0;
    if (report) {
      report->add(row);
    }
  });
  if (report) {
    report->end();
  }
  return wrong ? 1 : 0;
}

/// The job that this process was started in, if it was.
std::optional<JobEnvironment> surrounding_job() {
  for (const LauncherVariables& row : launcher_table()) {
    const auto is_set = [](std::string_view name) {
      return !name.empty() && process_environment(name);
    };
    if (std::any_of(row.rank.begin(), row.rank.end(), is_set) &&
        std::any_of(row.world_size.begin(), row.world_size.end(), is_set)) {
      return read_job_environment(process_environment);
    }
  }
  return std::nullopt;
}

int join_job(const BenchOptions& options, const JobEnvironment& job) {
  if (options.ranks != 0 && options.ranks != job.world_size.value) {
    throw InvalidArgument(fmt::format(
        "--ranks {}, but {} says that this process is one of {}; leave out --ranks to join that "
        "job, or unset {} and {} to start ranks here",
        options.ranks, job.world_size.from, job.world_size.value, job.rank.from,
        job.world_size.from));
  }
  const bool roomy =
      job.local_rank >= 0 && job.local_world_size <= static_cast<int>(allowed_cpus().size());
  std::optional<std::size_t> seat;
  if (roomy && options.pin == Pin::automatic) {
    seat = static_cast<std::size_t>(job.local_rank);
  }
  return run_rank(options, {}, seat);
}

int start_job(const BenchOptions& options) {
  const std::size_t cpus = allowed_cpus().size();
  const int ranks = options.ranks != 0 ? options.ranks : std::max(2, static_cast<int>(cpus));
  const bool pinned = options.pin == Pin::automatic && static_cast<std::size_t>(ranks) <= cpus;
  return run_ranks("tutti bench", ranks, [&](const InitOptions& join) {
    std::optional<std::size_t> seat;
    if (pinned) {
      seat = static_cast<std::size_t>(join.rank);
    }
    return run_rank(options, join, seat);
  });
}

void add_size_options(CLI::App& app, BenchFlags& flags) {
  app.add_option("--min", flags.min, "smallest size in bytes, such as 4 or 64K")
      ->capture_default_str();
  app.add_option("--max", flags.max, "largest size in bytes, such as 1M or 2G")
      ->capture_default_str();
  app.add_option("--factor", flags.factor, "from one size to the next")->capture_default_str();
  app.add_option("--time", flags.time_s, "seconds of timed loops per size")->capture_default_str();
  app.add_option("--reps", flags.reps, "timed loops per size; the median counts")
      ->capture_default_str();
  app.add_option("--cap", flags.cap_s, "seconds above which loops are left out, down to 2")
      ->capture_default_str();
}

void add_choices(CLI::App& app, BenchFlags& flags) {
  app.add_option("--dtypes", flags.dtypes,
                 "element types, such as f32,f16,bf16; operations that do not reduce take one")
      ->capture_default_str();
  app.add_option("--op", flags.op, "reduce operation of " + reducing_bench_op_names())
      ->capture_default_str();
  app.add_option("--transport", flags.transport, "auto, shm or tcp (default: TUTTI_TRANSPORT)");
  app.add_option("--backend", flags.backend, "backend to measure (default: tutti)");
  app.add_option(
      "--algorithm", flags.algorithm,
      "run with this algorithm (docs/algorithms.md); sizes it does not fit run as usual");
  app.add_option("--pin", flags.pin,
                 "auto: rank i on CPU i if there are enough CPUs; none: wherever the system likes")
      ->capture_default_str();
}

void add_output_options(CLI::App& app, BenchFlags& flags) {
  app.add_flag("--csv", flags.csv, "print CSV, as bench/peers/README.md describes it");
  app.add_flag("--stats", flags.stats,
               "CSV: four more columns, p50_us,p99_us,cpu_us,faults; the table has them always");
  app.add_option("--label", flags.label, "first column of the CSV (default: the backend's name)");
  app.add_option("--header", flags.header, "0: no heading")->capture_default_str();
  app.add_flag("--no-check", flags.no_check, "do not check results before measuring");
  app.add_option("--plot", flags.plot, "write bus bandwidth over size to this SVG file");
}

void add_modes(CLI::App& app, BenchFlags& flags) {
  app.add_flag("--tune", flags.tune,
               "measure every algorithm instead, and print a tuning table of the fastest");
  app.add_option("--out", flags.out, "write the tuning table to this file, or into it");
  app.add_option("--compare", flags.compare,
                 "measure nothing: compare two files of CSV, the second with the first")
      ->expected(2);
  app.add_option("--fail-below", flags.fail_below,
                 "with --compare: exit with status 1 if a ratio is below this one");
}

}  // namespace

Body configure_bench(CLI::App& app) {
  const auto flags = std::make_shared<BenchFlags>();
  app.footer(
      "OP: " + bench_op_names() +
      ";\n"
      "none means all. Bytes count the whole buffer, as nccl-tests does; busbw is comparable with\n"
      "the speed of the hardware. With RANK and WORLD_SIZE set the command joins that job.\n"
      "Exit status: 1 if a result was wrong or a ratio below --fail-below, 2 for a usage error.");
  app.add_option("OP", flags->ops, "operations to measure");
  app.add_option("--ops", flags->more_ops, "the same as a list: a,b");
  app.add_option("-n,--ranks", flags->ranks, "ranks to start (default: CPUs, at least 2)")
      ->check(CLI::Range(1, limits::kMaxLocalRanks));
  add_size_options(app, *flags);
  add_choices(app, *flags);
  add_output_options(app, *flags);
  add_modes(app, *flags);
  return [flags](std::span<const std::string>) {
    if (!flags->compare.empty()) {
      return compare_files(flags->compare[0], flags->compare[1], flags->fail_below);
    }
    const BenchOptions options = parse_bench(*flags);
    const std::optional<JobEnvironment> job = surrounding_job();
    return job ? join_job(options, *job) : start_job(options);
  };
}

}  // namespace tutti::cli
