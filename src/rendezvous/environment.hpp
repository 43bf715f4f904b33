// What launchers tell a process through its environment, in one table: which variable holds the
// rank, the world size, the address of the store and so on, for every launcher that tutti knows.
// Pure functions over a look-up function, so that tests need no environment; rendezvous.cpp turns
// the answer into a store.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The value of a variable; nullopt if it is unset or empty.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Looks into this process's environment.
std::optional<std::string> process_environment(std::string_view name);

/// Names of variables that mean the same to one launcher; the first one that is set wins.
using VariableNames = std::array<std::string_view, 2>;

/// A row of the table: which variables a launcher sets. Empty names: it has none.
struct LauncherVariables {
  std::string_view launcher{};
  VariableNames rank{};
  VariableNames world_size{};
  VariableNames local_rank{};
  VariableNames local_world_size{};
  VariableNames address{};  ///< of the host that serves the store; MASTER_ADDR wins over it
  VariableNames port{};     ///< MASTER_PORT wins over it
  VariableNames job_id{};   ///< differs between jobs
};

/// All rows. The first row whose rank variable is set is the launcher: inner launchers stand before
/// those that may have started them (mpirun within a Slurm allocation).
std::span<const LauncherVariables> launcher_table();

/// A number and who said so: a variable's name, "the URL" or "the argument". Negative: nobody.
struct Given {
  int value = -1;
  std::string from{};
  bool known() const { return value >= 0; }
};

/// Who runs the store of the job.
enum class StoreOwner {
  rank_zero,  ///< rank 0 serves it
  launcher,   ///< `tutti run` serves it (TUTTI_AGENT_STORE=1); every rank is a client
  foreign,    ///< torchrun's own store holds the port (TORCHELASTIC_USE_AGENT_STORE=True); it does
              ///< not speak tutti's protocol, so tutti must stay off that port
};

/// What the environment says about this process's job.
struct JobEnvironment {
  std::string_view launcher{};  ///< empty: none was recognised
  Given rank{};
  Given world_size{};
  int local_rank = -1;
  int local_world_size = -1;  ///< -1: unknown
  std::string address{};      ///< empty: unknown
  std::uint16_t port = 0;     ///< 0: unknown
  StoreOwner owner = StoreOwner::rank_zero;
  std::string job_id{};  ///< empty: unknown
  bool single_host() const { return local_world_size > 0 && local_world_size == world_size.value; }
};

/// Reads the environment. What `rank` and `world_size` already know is kept and not looked for.
/// InvalidArgument if a variable holds nonsense (name, value, what is accepted), if rank or world
/// size is nowhere to be found (everything that was looked for), or unless
/// 0 <= rank < world size <= limits::kMaxWorldSize.
JobEnvironment read_job_environment(const EnvLookup& lookup, Given rank = {},
                                    Given world_size = {});

/// Identifies the job as far as the launcher's environment tells, else empty; for claim_rank. Never
/// throws because of other variables.
std::string job_id_of(const EnvLookup& lookup);

/// Throws InvalidArgument, naming where the numbers came from, unless
/// 0 <= rank < world size <= limits::kMaxWorldSize.
void check_seat(const Given& rank, const Given& world_size);

/// Where the store is to be found.
struct StorePlace {
  enum class Kind { process, tcp, file };
  Kind kind = Kind::process;  ///< process: the job has one rank and needs no server
  std::string host{};
  std::uint16_t port = 0;
  bool serve = false;       ///< tcp: this rank serves
  std::string file_name{};  ///< file: unique to the job; the folder is rendezvous_folder()
};

/// Which processes above this one could name the job. Each is "<pid>-<start time>", so that a
/// recycled pid differs.
struct LaunchAncestry {
  std::string manager{};  ///< the nearest mpirun or process manager; empty: none
  std::string parent{};
};
LaunchAncestry launch_ancestry();

/// Decides from the environment alone, so that all ranks decide alike:
///  * an address and a port: TCP; rank 0 serves unless the launcher does;
///  * the port belongs to torchrun's own store: a file if all ranks share one host, else TCP on the
///    next port;
///  * no address, one rank: a store in this process;
///  * no address, all ranks on one host (mpirun): a file named by the job id and the process
///  manager
///    above the ranks, or if both are unknown by the parent process;
///  * else InvalidArgument: MASTER_ADDR and MASTER_PORT are needed.
StorePlace place_store(const JobEnvironment& job, const std::function<LaunchAncestry()>& ancestry);

/// First host of a Slurm node list: "node[003-007,010],gpu1" gives "node003".
std::string first_slurm_host(std::string_view node_list);

/// Private folder for rendezvous files, made if absent: $XDG_RUNTIME_DIR/tutti, else
/// /tmp/tutti-<uid>. InvalidArgument if it belongs to somebody else or others may write to it.
std::string rendezvous_folder(const EnvLookup& lookup);

/// A decimal integer in [low, high], all of `text`; else InvalidArgument
/// "`what` is '`text`', expected an integer from low to high".
int parse_bounded(std::string_view what, std::string_view text, int low, int high);

}  // namespace tutti
