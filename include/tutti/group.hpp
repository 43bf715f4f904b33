// Groups and contexts. A Context is this process's (or, in tests, this thread's) membership in a
// job; a Group is an ordered set of its ranks that communicate. Everything the library owns hangs
// below a Context; nothing else is global.
#pragma once

#include <tutti/options.hpp>
#include <tutti/store.hpp>
#include <tutti/work.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Declared before the visible part: they stay private to the library.
namespace tutti {
class GroupState;    // private: src/group/group_state.hpp
class ContextState;  // private: src/group/context_state.hpp
}  // namespace tutti

#pragma GCC visibility push(default)
namespace tutti {

/// Default bound of every operation.
inline constexpr std::chrono::milliseconds kDefaultTimeout{30 * 60 * 1000};

struct GroupOptions {
  std::string name{};         ///< empty: a name is made (see new_group)
  std::string description{};  ///< free text, shown in messages and `tutti info`
  std::optional<std::chrono::milliseconds> timeout{};  ///< absent: as the parent group
  /// Only the members call new_group; else every rank of the world calls it.
  bool use_local_synchronization = false;
  /// Keep the order given: group rank is the position in the list. Else ranks are sorted.
  bool ordered = false;
  /// Reduce in the order of ranks whatever algorithm or size is used.
  bool deterministic = false;
  /// Allow prod of complex numbers.
  bool complex_product = false;
  /// Run operations that have it with this algorithm (docs/algorithms.md), others as usual. For
  /// tests and measurements; equal on all ranks. The world group takes TUTTI_ALGORITHM.
  std::string algorithm{};
};

/// A handle on a group; copies share it. Thread-safe: calls of one group are ordered by a lock, and
/// the caller sees to it that this order is the same on all ranks.
class Group {
 public:
  Group() = default;
  explicit Group(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}

  bool defined() const { return state_ != nullptr; }
  /// False for the handle that non-members of a new group get; communicating on it throws.
  bool is_member() const;
  /// This process's rank in the group, -1 for a non-member.
  int rank() const;
  /// Number of ranks, -1 for a non-member.
  int size() const;
  const std::string& name() const;
  const std::string& description() const;
  /// Name of the backend that runs the operations, such as "tutti".
  const std::string& backend() const;
  /// World ranks of the members, ordered by group rank.
  const std::vector<int>& ranks() const;
  /// World rank of group rank `rank`, and back. InvalidArgument if there is none.
  int global_rank(int rank) const;
  int group_rank(int global_rank) const;

  std::chrono::milliseconds timeout() const;
  /// Applies from the next call on; must be positive.
  void set_timeout(std::chrono::milliseconds timeout);
  /// Number of collectives started on this group so far.
  std::uint64_t sequence_number() const;

  /// Ends every pending and later operation of this group, here, with Aborted, at once. Callable
  /// from any thread. Other groups are untouched; the other ranks learn of it and fail as well.
  void abort(const std::string& reason = "abort was called");

  /// Splits the group: ranks with equal `color` form a group, ordered by (`key`, rank). Every
  /// member calls it. A negative color gets a non-member handle.
  Group split(int color, int key, const GroupOptions& options = {}) const;

  /// InvalidArgument for an empty handle.
  GroupState& state() const {
    if (state_ == nullptr) {
      refuse_empty();
    }
    return *state_;
  }

 private:
  [[noreturn]] static void refuse_empty();

  std::shared_ptr<GroupState> state_{};
};

/// How to join a job. Explicit values win over the URL, the URL over the environment.
struct InitOptions {
  std::string backend{};           ///< empty: "tutti"
  std::string init_method{};       ///< "env://" (default), "tcp://host:port", "file:///path", or a
                                   ///< registered scheme
  std::shared_ptr<Store> store{};  ///< instead of init_method; then rank and world_size are needed
  int rank = -1;
  int world_size = -1;
  std::optional<std::chrono::milliseconds> timeout{};  ///< absent: 30 minutes
  std::string group_name{};                            ///< of the world group; empty: "world"
  /// "auto", "shm" (only shared memory, else an error) or "tcp"; empty: TUTTI_TRANSPORT, else auto.
  std::string transport{};
  /// Reduce in rank order in the world group; see GroupOptions::deterministic.
  bool deterministic = false;
};

/// Shared memory of one rank, in bytes. What is set aside is address space: only what operations
/// touch of it takes memory. docs/architecture.md, "Memory", has the bounds.
struct MemoryUse {
  std::size_t set_aside = 0;
  std::size_t resident = 0;       ///< of it: takes memory now; 0 where the system does not tell
  std::size_t message_rings = 0;  ///< part of set_aside: one per other rank of this host
  std::size_t per_group = 0;      ///< what one more group sets aside
};

/// This process's membership in a job. Destroying it drains pending work (bounded by the group
/// timeout) and closes everything.
class Context {
 public:
  /// Joins; returns once every rank has joined. Throws InvalidArgument, StoreError, Timeout (naming
  /// the ranks that did not come) or Unsupported; nothing stays behind then.
  static std::unique_ptr<Context> create(const InitOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Group world() const;
  /// Makes a group of world ranks `ranks` (empty optional: all). Collective over the world, or over
  /// the members with use_local_synchronization. Non-members get a handle with is_member() false.
  /// Throws InvalidArgument for an empty list, duplicates, unknown ranks, a taken name; Mismatch if
  /// the callers disagree (both lists are named); Timeout names the ranks that did not call.
  Group new_group(std::optional<std::vector<int>> ranks = {}, const GroupOptions& options = {});
  /// Drains and closes a group made by new_group or split. InvalidArgument if that was done before,
  /// and for the world group, which ends with its context.
  void destroy_group(Group& group);
  std::shared_ptr<Store> store() const;
  /// One line per peer: rank, transport, and why shared memory is not used where it is not.
  std::vector<std::string> describe_peers() const;
  /// What this rank's shared memory takes now.
  MemoryUse memory() const;

  ContextState& state() const { return *state_; }

 private:
  explicit Context(std::unique_ptr<ContextState> state);
  std::unique_ptr<ContextState> state_;
};

// ---- the default context: one per process, as programs of this field expect ----

/// Joins a job and makes it the process's default. InvalidArgument if there is one already.
void init_process_group(const InitOptions& options = {});
/// Leaves the job (no argument), or closes one group of it. After leaving, init works again.
/// InvalidArgument if there is none.
void destroy_process_group();
void destroy_process_group(Group& group);
bool is_initialized();
/// The default context and its world group. InvalidArgument before init.
Context& default_context();
Group& default_group();
/// As Context::new_group on the default context.
Group new_group(std::optional<std::vector<int>> ranks = {}, const GroupOptions& options = {});
int get_rank();
int get_world_size();

}  // namespace tutti
#pragma GCC visibility pop
