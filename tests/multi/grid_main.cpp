// The grid on the command line: the whole cover on processes, a third of it on threads, one case
// again, or random cases of the full product until stopped. All cases of one (transport, world
// size) run in the same ranks, one after another.
//
//   grid --processes | --threads [--seed N]     the cover; exit status 0 if every case was right
//   grid --case 'LINE'                          one case, as a failure printed it
//   grid --soak SEED [--minutes M]              until Ctrl-C or a failure
//   grid --list                                 the cases
#include "base/rng.hpp"
#include "harness/process_ranks.hpp"
#include "harness/thread_ranks.hpp"
#include "multi/grid_case.hpp"
#include "multi/grid_cover.hpp"
#include "multi/grid_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::grid {
namespace {

/// The table as it has to be: dropping a value, a row or a case changes a number.
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kPairs = 2900;
constexpr std::size_t kTriples = 562;
constexpr std::size_t kCases = 625;

constexpr std::chrono::seconds kLimitPerRun{300};
constexpr std::size_t kThreadShare = 3;
constexpr std::size_t kSoakBatch = 50;

volatile std::sig_atomic_t stop_requested = 0;

using Cases = std::vector<Case>;
using Failures = std::vector<std::string>;
using Hashes = std::vector<std::uint64_t>;

/// Runs the cases in order on this rank; the message of a failure names the case.
Hashes run_cases(Context& context, const Cases& cases,
                 const std::function<void(std::size_t)>& starting) {
  Groups groups(context, cases);
  Hashes hashes;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    starting(i);
    try {
      hashes.push_back(run_case(cases[i], groups.of(cases[i])).hash);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("case '{}': rank {}: {}", to_line(cases[i]),
                                           context.world().rank(), error.what()));
    }
  }
  return hashes;
}

InitOptions init_of(const Case& test) {
  constexpr std::array kNames{"shm", "tcp", "auto"};
  return {.transport = kNames[static_cast<std::size_t>(test.transport())]};
}

/// Bits that all ranks must have alike.
Failures compare_hashes(const Cases& cases, const std::vector<Hashes>& ranks) {
  Failures failures;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      if (ranks[rank][i] != ranks[0][i]) {
        failures.push_back(
            fmt::format("case '{}': rank {} has other bits than rank 0", to_line(cases[i]), rank));
        break;
      }
    }
  }
  return failures;
}

void prepare_rank(const Case& test, int rank) {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C stops the soak between runs
  if (test.transport() == Transport::hosts) {
    const std::string host = fmt::format("host{}", host_of(rank, test.world()));
    ::setenv("TUTTI_HOST_ID", host.c_str(), 1);
  }
}

Failures run_on_processes(const Cases& cases) {
  const Case first = cases.front();
  const auto outcomes = testing::run_process_ranks(
      {.size = first.world(),
       .init = init_of(first),
       .limit = kLimitPerRun,
       .prepare = [&](int rank) { prepare_rank(first, rank); }},
      [&](Context& context, testing::Reporter& reporter) {
        const Hashes hashes =
            run_cases(context, cases, [&](std::size_t i) { reporter.note(to_line(cases[i])); });
        return fmt::format("{}", fmt::join(hashes, " "));
      });
  Failures failures;
  std::vector<Hashes> ranks;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (!outcomes[rank].returned()) {
      failures.push_back(testing::describe(static_cast<int>(rank), outcomes[rank]));
      continue;
    }
    std::istringstream words(outcomes[rank].text);
    ranks.emplace_back();
    for (std::uint64_t hash = 0; words >> hash;) {
      ranks.back().push_back(hash);
    }
  }
  return failures.empty() ? compare_hashes(cases, ranks) : failures;
}

Failures run_on_threads(const Cases& cases) {
  const Case first = cases.front();
  Failures failures;
  std::mutex mutex;
  std::vector<Hashes> ranks(static_cast<std::size_t>(first.world()));
  const auto body = [&](Context& context) {
    try {
      ranks[static_cast<std::size_t>(context.world().rank())] =
          run_cases(context, cases, [](std::size_t) {});
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      failures.emplace_back(error.what());
    }
  };
  try {
    testing::run_thread_ranks(first.world(), body, init_of(first));
  } catch (const std::exception& error) {
    failures.emplace_back(error.what());
  }
  return failures.empty() ? compare_hashes(cases, ranks) : failures;
}

using Runner = Failures (*)(const Cases&);

/// Prints one line per (transport, world size); returns the number of failures.
std::size_t run_all(const Cases& cases, Runner runner) {
  std::map<std::pair<int, int>, Cases> runs;
  for (const Case& test : cases) {
    runs[{static_cast<int>(test.transport()), test.world()}].push_back(test);
  }
  std::size_t failed = 0;
  std::size_t done = 0;
  for (const auto& [where, some] : runs) {
    const auto start = std::chrono::steady_clock::now();
    const Failures failures = runner(some);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    done += some.size();
    fmt::print("{:>5} {} ranks: {:3} cases, {:6.1f} s, {} of {} done\n",
               values_of(Factor::transport)[static_cast<std::size_t>(where.first)], where.second,
               some.size(), took.count(), done, cases.size());
    for (const std::string& failure : failures) {
      fmt::print("FAILED {}\n", failure);
    }
    std::fflush(stdout);
    failed += failures.size();
  }
  return failed;
}

/// The cover, checked against what it has to be. Empty on disagreement.
std::optional<Cover> checked_cover(std::uint64_t seed) {
  Cover cover = make_cover(seed);
  fmt::print(
      "seed {}: covered {} of {} pairs and {} of {} (form, algorithm, world size) in {} "
      "cases\n",
      seed, cover.covered_pairs, cover.pairs, cover.covered_triples, cover.triples,
      cover.cases.size());
  std::fflush(stdout);
  const bool complete =
      cover.covered_pairs == cover.pairs && cover.covered_triples == cover.triples;
  const bool as_expected = cover.pairs == kPairs && cover.triples == kTriples &&
                           (seed != kSeed || cover.cases.size() == kCases);
  if (!complete || !as_expected) {
    fmt::print(
        "FAILED the table is not the one expected ({} pairs, {} triples, {} cases); if a "
        "row was added on purpose, update the numbers in grid_main.cpp\n",
        kPairs, kTriples, kCases);
    return std::nullopt;
  }
  return cover;
}

/// Every third case that threads can run: they share one environment, so no pretended hosts.
Cases for_threads(const Cases& cases, std::uint64_t seed) {
  Cases some;
  std::size_t next = seed % kThreadShare;
  for (const Case& test : cases) {
    if (test.transport() != Transport::hosts && next++ % kThreadShare == 0) {
      some.push_back(test);
    }
  }
  return some;
}

int soak(std::uint64_t seed, std::chrono::minutes limit) {
  std::signal(SIGINT, [](int) { stop_requested = 1; });
  const Deadline deadline = limit.count() == 0 ? Deadline() : Deadline::after(limit);
  Rng rng(seed);
  std::size_t done = 0;
  while (stop_requested == 0 && !deadline.passed(std::chrono::steady_clock::now())) {
    const Case place = random_case(rng, seed);
    Cases cases;
    while (cases.size() < kSoakBatch) {
      Case test = random_case(rng, rng.next());
      if (test.transport() == place.transport() && test.world() == place.world()) {
        cases.push_back(test);
      }
    }
    if (run_all(cases, run_on_processes) != 0) {
      return 1;
    }
    done += cases.size();
    fmt::print("soak seed {}: {} cases right\n", seed, done);
    std::fflush(stdout);
  }
  return 0;
}

struct Arguments {
  std::string mode{};
  std::string line{};
  std::uint64_t seed = kSeed;
  std::chrono::minutes limit{0};
};

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const bool more = i + 1 < count;
    if (word == "--seed" && more) {
      arguments.seed = std::stoull(words[++i]);
    } else if (word == "--minutes" && more) {
      arguments.limit = std::chrono::minutes(std::stoi(words[++i]));
    } else if (word == "--soak" && more) {
      arguments.mode = word;
      arguments.seed = std::stoull(words[++i]);
    } else if (word == "--case" && more) {
      arguments.mode = word;
      arguments.line = words[++i];
    } else {
      arguments.mode = word;
    }
  }
  return arguments;
}

int run(const Arguments& arguments) {
  if (arguments.mode == "--soak") {
    return soak(arguments.seed, arguments.limit);
  }
  if (arguments.mode == "--case") {
    const std::optional<Case> test = parse_line(arguments.line);
    if (!test) {
      fmt::print("not a case: '{}'\n", arguments.line);
      return 2;
    }
    return run_all({*test}, run_on_processes) == 0 ? 0 : 1;
  }
  const std::optional<Cover> cover = checked_cover(arguments.seed);
  if (!cover) {
    return 1;
  }
  if (arguments.mode == "--list") {
    for (const Case& test : cover->cases) {
      fmt::print("{}\n", to_line(test));
    }
    return 0;
  }
  const bool threads = arguments.mode == "--threads";
  if (!threads && arguments.mode != "--processes") {
    fmt::print(
        "usage: grid --processes | --threads | --list [--seed N]; grid --case LINE; grid "
        "--soak SEED [--minutes M]\n");
    return 2;
  }
  const std::size_t failed =
      threads ? run_all(for_threads(cover->cases, arguments.seed), run_on_threads)
              : run_all(cover->cases, run_on_processes);
  fmt::print("{} failures\n", failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::grid

int main(int count, char** words) { return tutti::grid::run(tutti::grid::parse(count, words)); }
