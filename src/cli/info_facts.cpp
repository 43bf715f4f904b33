#include "cli/info_facts.hpp"

#include "base/byte_text.hpp"
#include "base/limits.hpp"
#include "base/unique_fd.hpp"
#include "cli/bench_canary.hpp"
#include "kernels/reduce.hpp"
#include "plan/select.hpp"
#include "transport/publish.hpp"

#include <tutti/dtype.hpp>
#include <tutti/group.hpp>
#include <tutti/options.hpp>
#include <tutti/version.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tutti::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  const std::string name = fmt::format("clang++ {}", __clang_version__);
#else
  const std::string name = fmt::format("g++ {}", __VERSION__);
#endif
#if defined(__OPTIMIZE__)
  return name + ", optimised";
#else
  return name + ", not optimised: measure nothing with this build";
#endif
}

std::string element_types() {
  std::string text;
  for (const DTypeInfo& row : kDTypes) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", row.short_name);
  }
  return text;
}

std::string system_text() {
  utsname names{};
  ::uname(&names);
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

std::string cpus_text() {
  const std::vector<int> cpus = allowed_cpus();
  return fmt::format("{} of {} for this process: {}", cpus.size(), ::sysconf(_SC_NPROCESSORS_ONLN),
                     fmt::join(cpus, ","));
}

std::string membarrier_text() {
  return register_for_membarrier()
             ? "yes: a rank publishes with a plain store"
             : "refused by the system or left out of this build: a rank publishes with an exchange";
}

std::string memfd_text() {
  const UniqueFd fd(::memfd_create("tutti-info", MFD_CLOEXEC));
  return fd.valid() ? "yes: shared memory needs no /dev/shm"
                    : "refused by the system: shared memory lies in /dev/shm, unlinked";
}

std::vector<std::string> limit_lines() {
  const auto timeout = std::chrono::duration_cast<std::chrono::minutes>(kDefaultTimeout);
  return {
      fmt::format("ranks of a job {}, of one host {}", limits::kMaxWorldSize,
                  limits::kMaxLocalRanks),
      fmt::format("message {}, message sent before its receiver asks {}",
                  short_bytes(limits::kMaxMessageBytes), short_bytes(limits::kEagerBytes)),
      fmt::format("store: key {}, value {}, clients {}", short_bytes(limits::kMaxStoreKeyBytes),
                  short_bytes(limits::kMaxStoreValueBytes), limits::kMaxStoreClients),
      fmt::format("time-out of an operation {} min, first report of a stall after {} s",
                  timeout.count(), limits::kFirstStallReport.count()),
  };
}

/// A situation that selection distinguishes.
struct Situation {
  std::string_view name{};
  SelectionFacts facts{};
};

constexpr int kManyRanks = 8;
constexpr std::array kSituations{
    Situation{.name = "one host, ranks <= CPUs", .facts = {.ranks = kManyRanks}},
    Situation{.name = "one host, ranks > CPUs", .facts = {.ranks = kManyRanks, .ranks_per_cpu = 2}},
    Situation{.name = "one rank per host", .facts = {.ranks = kManyRanks, .one_host = false}},
    Situation{.name = "several ranks per host",
              .facts = {.ranks = kManyRanks, .one_host = false, .two_level = true}},
};

std::string name_of(const Selection& selection) {
  const bool staged =
      selection.kind == Selection::Kind::direct && selection.protocol == Protocol::staged;
  return staged ? fmt::format("{} by {}", name(selection), short_bytes(selection.segment_bytes))
                : std::string(name(selection));
}

// The choice changes at powers of two plus one; sizes are those of one rank's block.
std::string choices(const Spec& row, SelectionFacts facts, const TuningTable& table) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  facts.op = row.op;
  facts.block_bytes = row.op == Op::barrier ? 0 : 1;
  std::string last = name_of(select(facts, table));
  std::string text = fmt::format("{:<15} {}", row.name, last);
  for (std::size_t bytes = 1; bytes <= kLargest && row.op != Op::barrier; bytes *= 2) {
    facts.block_bytes = bytes + 1;
    const std::string name = name_of(select(facts, table));
    if (name != last) {
      text += fmt::format(", above {} {}", short_bytes(bytes), name);
      last = name;
    }
  }
  return text;
}

constexpr std::array<std::string_view, 11> kOwnVariables{
    "MASTER_ADDR",   "MASTER_PORT",         "TUTTI_AGENT_STORE", "TUTTI_ALGORITHM",
    "TUTTI_HOST_ID", "TUTTI_SOCKET_IFNAME", "TUTTI_TRANSPORT",   "TUTTI_TUNING",
    "TUTTI_WAIT",    "TUTTI_LOG",           "XDG_RUNTIME_DIR"};
constexpr std::array<std::string_view, 2> kSecretVariables{"TUTTI_SECRET", "TUTTI_SECRET_FILE"};

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> names(kOwnVariables.begin(), kOwnVariables.end());
  for (const LauncherVariables& row : launcher_table()) {
    for (const VariableNames* group :
         {&row.rank, &row.world_size, &row.local_rank, &row.local_world_size, &row.address,
          &row.port, &row.job_id}) {
      names.insert(names.end(), group->begin(), group->end());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::erase(names, "");
  return names;
}

}  // namespace

std::vector<Fact> library_facts() {
  return {
      {"version", {fmt::format("tutti {}", kVersion)}},
      {"compiler", {compiler()}},
      {"kernels", {kernel_target()}},
      {"backends", {"tutti"}},
      {"transports", {"shm, tcp"}},
      {"element types", {element_types()}},
      {"reduce ops", {fmt::format("{}", fmt::join(kReduceOpNames, " "))}},
      {"system", {system_text()}},
      {"CPUs", {cpus_text()}},
      {"membarrier", {membarrier_text()}},
      {"memfd", {memfd_text()}},
      {"limits", limit_lines()},
  };
}

Fact tuning_facts(const TuningTable& table) {
  Fact fact{.name = "tuning table",
            .lines = {fmt::format("{}, digest {}", table.source(), table.digest())}};
  for (const auto& rows : {table.rows(), TuningTable::built_in()}) {
    for (const TuningRow& row : rows) {
      fact.lines.push_back(text_of(row));
    }
  }
  return fact;
}

std::vector<Fact> selection_facts(const TuningTable& table) {
  std::vector<Fact> facts;
  for (const Situation& situation : kSituations) {
    Fact fact{.name = std::string(situation.name)};
    for (const Spec& row : kSpecs) {
      if (!row.point_to_point()) {
        fact.lines.push_back(choices(row, situation.facts, table));
      }
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

Fact environment_facts(const EnvLookup& lookup) {
  Fact fact{.name = "environment"};
  for (const std::string_view name : known_variables()) {
    if (const auto value = lookup(name)) {
      fact.lines.push_back(fmt::format("{}={}", name, *value));
    }
  }
  for (const std::string_view name : kSecretVariables) {
    if (lookup(name)) {
      fact.lines.push_back(fmt::format("{} is set", name));
    }
  }
  if (fact.lines.empty()) {
    fact.lines.emplace_back("nothing that tutti reads is set");
  }
  return fact;
}

}  // namespace tutti::cli
