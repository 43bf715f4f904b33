#include "rendezvous/environment.hpp"

#include "base/limits.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace tutti {
namespace {

constexpr int kMaxPort = 65535;

constexpr std::array kLaunchers{
    LauncherVariables{.launcher = "tutti run or torchrun",
                      .rank = {"RANK"},
                      .world_size = {"WORLD_SIZE"},
                      .local_rank = {"LOCAL_RANK"},
                      .local_world_size = {"LOCAL_WORLD_SIZE"},
                      .address = {"MASTER_ADDR"},
                      .port = {"MASTER_PORT"},
                      .job_id = {"TUTTI_JOB_ID", "TORCHELASTIC_RUN_ID"}},
    LauncherVariables{.launcher = "msrun",
                      .rank = {"RANK_ID", "MS_NODE_ID"},
                      .world_size = {"RANK_SIZE", "MS_WORKER_NUM"},
                      .address = {"MS_SCHED_HOST"},
                      .port = {"MS_SCHED_PORT"}},
    LauncherVariables{.launcher = "Open MPI",
                      .rank = {"OMPI_COMM_WORLD_RANK"},
                      .world_size = {"OMPI_COMM_WORLD_SIZE"},
                      .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
                      .local_world_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                      .job_id = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    LauncherVariables{.launcher = "MPICH or another PMI launcher",
                      .rank = {"PMI_RANK"},
                      .world_size = {"PMI_SIZE"},
                      .local_rank = {"MPI_LOCALRANKID"},
                      .local_world_size = {"MPI_LOCALNRANKS"},
                      .job_id = {"PMI_JOBID"}},
    LauncherVariables{.launcher = "Slurm",
                      .rank = {"SLURM_PROCID"},
                      .world_size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
                      .local_rank = {"SLURM_LOCALID"},
                      .job_id = {"SLURM_JOB_ID", "SLURM_JOBID"}},
};

// A variable that is set, with its name for messages.
struct Variable {
  std::string_view name{};
  std::string value{};
};

std::optional<Variable> find(const EnvLookup& lookup, const VariableNames& names) {
  for (const std::string_view name : names) {
    if (name.empty()) {
      continue;
    }
    if (auto value = lookup(name)) {
      return Variable{name, *std::move(value)};
    }
  }
  return std::nullopt;
}

const LauncherVariables* find_launcher(const EnvLookup& lookup) {
  for (const LauncherVariables& row : kLaunchers) {
    if (find(lookup, row.rank)) {
      return &row;
    }
  }
  for (const LauncherVariables& row : kLaunchers) {  // the rank may be known already
    if (find(lookup, row.world_size)) {
      return &row;
    }
  }
  return nullptr;
}

int read_int(const EnvLookup& lookup, const VariableNames& names, int low, int high) {
  const auto variable = find(lookup, names);
  return variable ? parse_bounded(variable->name, variable->value, low, high) : -1;
}

std::string join_names(const VariableNames& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!name.empty()) {
      text += text.empty() ? "" : " or ";
      text += name;
    }
  }
  return text;
}

std::string everything_looked_for() {
  std::string text;
  for (const LauncherVariables& row : kLaunchers) {
    text += fmt::format("{}{} ({}, {})", text.empty() ? "" : "; ", row.launcher,
                        join_names(row.rank), join_names(row.world_size));
  }
  return text;
}

[[noreturn]] void throw_missing(std::string_view what, const LauncherVariables* row,
                                const VariableNames& names) {
  constexpr std::string_view kHelp =
      "start the program with `tutti run -n N PROGRAM` or another launcher, set RANK, WORLD_SIZE, "
      "MASTER_ADDR and MASTER_PORT, or pass rank and world size";
  if (row != nullptr) {
    throw InvalidArgument(
        fmt::format("rendezvous: the {} is not known: the environment looks like that of {}, but "
                    "{} is not set; {}",
                    what, row->launcher, join_names(names), kHelp));
  }
  throw InvalidArgument(fmt::format("rendezvous: the {} is not known; looked for: {}; {}", what,
                                    everything_looked_for(), kHelp));
}

// Two jobs of one user on one node rarely share a port; below the usual ephemeral range.
constexpr int kSlurmPortBase = 15000;
constexpr int kSlurmPorts = 15000;

std::uint16_t slurm_port(const EnvLookup& lookup) {
  const auto job = lookup("SLURM_JOB_ID");
  if (!job) {
    return 0;
  }
  // Any integer type would do; ids are below 2^26 on every Slurm, larger ones wrap.
  std::uint64_t mixed = 0;
  for (const char c : *job) {
    mixed = mixed * 10 + static_cast<std::uint64_t>(static_cast<unsigned char>(c) - '0');
  }
  const auto step = lookup("SLURM_STEP_ID");
  for (const char c : step.value_or("")) {
    mixed = mixed * 10 + static_cast<std::uint64_t>(static_cast<unsigned char>(c) - '0');
  }
  return static_cast<std::uint16_t>(kSlurmPortBase + static_cast<int>(mixed % kSlurmPorts));
}

std::string slurm_address(const EnvLookup& lookup) {
  for (const std::string_view nodes : {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"}) {
    if (const auto count = lookup(nodes)) {
      if (*count == "1") {
        return "127.0.0.1";
      }
      break;
    }
  }
  // Rank 0 runs on the first node of the step. The launching node may be a login node, so that
  // its address is only the last resort.
  for (const std::string_view list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto nodes = lookup(list)) {
      return first_slurm_host(*nodes);
    }
  }
  return lookup("SLURM_LAUNCH_NODE_IPADDR").value_or("");
}

void read_address(const EnvLookup& lookup, const LauncherVariables* row, JobEnvironment& job) {
  constexpr VariableNames kMasterPort{"MASTER_PORT"};
  const VariableNames own_port = row != nullptr ? row->port : VariableNames{};
  const VariableNames own_address = row != nullptr ? row->address : VariableNames{};
  if (auto master = lookup("MASTER_ADDR")) {
    job.address = *std::move(master);
  } else if (auto own = find(lookup, own_address)) {
    job.address = std::move(own->value);
  }
  int port = read_int(lookup, kMasterPort, 1, kMaxPort);
  if (port < 0) {
    port = read_int(lookup, own_port, 1, kMaxPort);
  }
  job.port = port < 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(port);
  // Also for mpirun within a Slurm allocation, as long as the ranks span hosts.
  if (lookup("SLURM_JOB_ID") && (job.launcher == "Slurm" || !job.single_host())) {
    job.address = job.address.empty() ? slurm_address(lookup) : job.address;
    job.port = job.port == 0 ? slurm_port(lookup) : job.port;
  }
}

StoreOwner read_owner(const EnvLookup& lookup) {
  if (lookup("TUTTI_AGENT_STORE") == "1") {
    return StoreOwner::launcher;
  }
  const auto elastic = lookup("TORCHELASTIC_USE_AGENT_STORE");
  return elastic == "True" || elastic == "true" || elastic == "1" ? StoreOwner::foreign
                                                                  : StoreOwner::rank_zero;
}

}  // namespace

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

std::span<const LauncherVariables> launcher_table() { return kLaunchers; }

int parse_bounded(std::string_view what, std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw InvalidArgument(
        fmt::format("{} is '{}', expected an integer from {} to {}", what, text, low, high));
  }
  return value;
}

void check_seat(const Given& rank, const Given& world_size) {
  if (world_size.value < 1 || world_size.value > limits::kMaxWorldSize) {
    throw InvalidArgument(fmt::format("world size {} (from {}) is not in 1..{}", world_size.value,
                                      world_size.from, limits::kMaxWorldSize));
  }
  if (rank.value < 0 || rank.value >= world_size.value) {
    throw InvalidArgument(fmt::format(
        "rank {} (from {}) is not in 0..{}, as world size {} (from "
        "{}) demands",
        rank.value, rank.from, world_size.value - 1, world_size.value, world_size.from));
  }
}

std::string job_id_of(const EnvLookup& lookup) {
  const LauncherVariables* row = find_launcher(lookup);
  const auto id = row != nullptr ? find(lookup, row->job_id) : std::nullopt;
  std::string text = id ? id->value : "";
  // Steps of one Slurm job, and attempts of one torchrun, are jobs of their own.
  if (id && row->launcher == "Slurm") {
    text += "." + lookup("SLURM_STEP_ID").value_or("0");
  } else if (const auto attempt = lookup("TORCHELASTIC_RESTART_COUNT")) {
    text += "." + *attempt;
  }
  return text;
}

JobEnvironment read_job_environment(const EnvLookup& lookup, Given rank, Given world_size) {
  JobEnvironment job{.rank = std::move(rank), .world_size = std::move(world_size)};
  const LauncherVariables* row = find_launcher(lookup);
  const VariableNames none{};
  if (!job.rank.known()) {
    const auto variable = find(lookup, row != nullptr ? row->rank : none);
    if (!variable) {
      throw_missing("rank", row, row != nullptr ? row->rank : none);
    }
    job.rank = {parse_bounded(variable->name, variable->value, 0, limits::kMaxWorldSize - 1),
                std::string(variable->name)};
  }
  if (!job.world_size.known()) {
    const auto variable = find(lookup, row != nullptr ? row->world_size : none);
    if (!variable) {
      throw_missing("world size", row, row != nullptr ? row->world_size : none);
    }
    job.world_size = {parse_bounded(variable->name, variable->value, 1, limits::kMaxWorldSize),
                      std::string(variable->name)};
  }
  check_seat(job.rank, job.world_size);
  if (row != nullptr) {
    job.launcher = row->launcher;
    job.local_rank = read_int(lookup, row->local_rank, 0, limits::kMaxWorldSize - 1);
    job.local_world_size = read_int(lookup, row->local_world_size, 1, limits::kMaxWorldSize);
    job.job_id = job_id_of(lookup);
  }
  read_address(lookup, row, job);
  job.owner = read_owner(lookup);
  return job;
}

namespace {

// Ids of Open MPI recur after a while, hence the manager too; a wrapper script around each rank
// makes the parents differ, hence the parent only if nothing else is known.
std::string mpi_file_name(const std::string& job_id, const LaunchAncestry& above) {
  const std::string job = job_id.empty() ? "" : "-job-" + job_id;
  const std::string manager = above.manager.empty() ? "" : "-of-" + above.manager;
  return "mpi" + job + manager + (job.empty() && manager.empty() ? "-by-" + above.parent : "");
}

}  // namespace

StorePlace place_store(const JobEnvironment& job, const std::function<LaunchAncestry()>& ancestry) {
  using Kind = StorePlace::Kind;
  const bool serve = job.rank.value == 0 && job.owner != StoreOwner::launcher;
  if (job.owner == StoreOwner::foreign && job.single_host()) {
    // The port is unique on the host while torchrun runs; the run id alone is often "none".
    return {.kind = Kind::file, .file_name = fmt::format("torchrun-{}-{}", job.job_id, job.port)};
  }
  if (!job.address.empty() && job.port != 0) {
    if (job.owner == StoreOwner::foreign && job.port == kMaxPort) {
      throw InvalidArgument(
          "MASTER_PORT is 65535 and held by torchrun's own store, so that no next port is left for "
          "tutti; choose a lower one or pass init_method tcp://host:port");
    }
    const int port = job.port + (job.owner == StoreOwner::foreign ? 1 : 0);
    return {.kind = Kind::tcp,
            .host = job.address,
            .port = static_cast<std::uint16_t>(port),
            .serve = serve};
  }
  if (job.owner == StoreOwner::rank_zero && job.address.empty() && job.port == 0) {
    if (job.world_size.value == 1) {
      return {.kind = Kind::process};
    }
    if (job.single_host()) {
      return {.kind = Kind::file, .file_name = mpi_file_name(job.job_id, ancestry())};
    }
  }
  throw InvalidArgument(fmt::format(
      "rendezvous: rank {} of {} does not know where the store of the job is: the host is {}, the "
      "port is {}; set MASTER_ADDR and MASTER_PORT (MS_SCHED_HOST and MS_SCHED_PORT under msrun), "
      "or pass init_method tcp://host:port",
      job.rank.value, job.world_size.value,
      job.address.empty() ? "not set" : "'" + job.address + "'",
      job.port == 0 ? "not set" : std::to_string(job.port)));
}

std::string first_slurm_host(std::string_view node_list) {
  // A host is text with bracketed sets; of each set its first number counts. The first comma
  // outside of brackets ends the host.
  std::string host;
  bool in_brackets = false;
  bool skipping = false;
  for (const char c : node_list) {
    if (c == '[') {
      in_brackets = true;
      skipping = false;
    } else if (c == ']') {
      in_brackets = false;
    } else if (in_brackets) {
      skipping = skipping || c == '-' || c == ',';
      host += skipping ? "" : std::string(1, c);
    } else if (c == ',') {
      break;
    } else {
      host += c;
    }
  }
  return host;
}

}  // namespace tutti
