// `tutti info`: what this build and this host offer, and what the library would choose.
#include "base/limits.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/info_facts.hpp"
#include "rendezvous/environment.hpp"

#include <tutti/collectives.hpp>
#include <tutti/group.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace tutti::cli {
namespace {

constexpr std::chrono::seconds kPeersTimeout{60};

struct InfoFlags {
  int ranks = 0;  ///< 0: start none
  std::string transport{};
};

void print(const Fact& fact) {
  std::string name = fact.name;
  for (const std::string& line : fact.lines) {
    fmt::print("{:<15} {}\n", name, line);
    name.clear();
  }
}

void print_block(const Fact& fact) {
  fmt::print("  {}\n", fact.name);
  for (const std::string& line : fact.lines) {
    fmt::print("    {}\n", line);
  }
}

/// One rank after the other says how it reaches the others.
int print_peers(const InitOptions& join, const std::string& transport) {
  InitOptions options = join;
  options.transport = transport;
  options.timeout = kPeersTimeout;
  const std::unique_ptr<Context> context = Context::create(options);
  Group world = context->world();
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) {
      for (const std::string& line : context->describe_peers()) {
        fmt::print("  rank {} to {}\n", rank, line);
      }
      const MemoryUse memory = context->memory();
      fmt::print(
          "  rank {} shared memory: {} KiB in use of {} KiB set aside, {} KiB of it for messages; "
          "a "
          "group sets aside {} KiB\n",
          rank, memory.resident >> 10, memory.set_aside >> 10, memory.message_rings >> 10,
          memory.per_group >> 10);
      std::fflush(stdout);
    }
    barrier(world);
  }
  return 0;
}

int print_info(const InfoFlags& flags) {
  for (const Fact& fact : library_facts()) {
    print(fact);
  }
  print(environment_facts(process_environment));
  const TuningTable table = TuningTable::load(process_environment("TUTTI_TUNING").value_or(""));
  print(tuning_facts(table));
  fmt::print("selection by bytes of a rank's block (docs/algorithms.md)\n");
  for (const Fact& fact : selection_facts(table)) {
    print_block(fact);
  }
  if (flags.ranks == 0) {
    return 0;
  }
  fmt::print("peers of {} ranks on this host\n", flags.ranks);
  return run_ranks("tutti info", flags.ranks,
                   [&](const InitOptions& join) { return print_peers(join, flags.transport); });
}

}  // namespace

Body configure_info(CLI::App& app) {
  const auto flags = std::make_shared<InfoFlags>();
  app.add_option("-n,--ranks", flags->ranks,
                 "start so many ranks and say how each reaches the others")
      ->check(CLI::Range(1, limits::kMaxLocalRanks));
  app.add_option("--transport", flags->transport,
                 "of these ranks: auto, shm or tcp (default: TUTTI_TRANSPORT)");
  return [flags](std::span<const std::string>) { return print_info(*flags); };
}

}  // namespace tutti::cli
