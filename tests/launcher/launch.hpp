// Starts the real `tutti` command and watches it: output, exit status, and that no process of the
// job is left. The test process is a subreaper, so that every orphan of a job becomes its child;
// "none left" is then exactly "no child left". Every wait has a deadline.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::test {

inline constexpr std::chrono::seconds kPatience{30};

/// A folder of the test, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_{};
};

struct LaunchOptions {
  std::vector<std::string> arguments{};    ///< after "tutti run"
  std::vector<std::string> environment{};  ///< NAME=value, added to this process's
  int standard_input = -1;                 ///< -1: /dev/null
  bool merged = false;                     ///< standard error goes where standard output goes
};

class Launch {
 public:
  explicit Launch(LaunchOptions options);
  explicit Launch(std::vector<std::string> arguments)
      : Launch(LaunchOptions{.arguments = std::move(arguments)}) {}
  /// Kills what is left.
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Reads standard output until `text` has come; false at the deadline or end of file.
  bool wait_for_output(const std::string& text);
  /// Reads both outputs to their end and waits for the launcher. Exit status as a shell gives it,
  /// -1 at the deadline.
  int wait();
  /// Waits for the launcher only, reading nothing; false if it runs on after `limit`.
  bool ends_within(Duration limit) const;
  void close_output() { output_end_.reset(); }
  int output_end() const { return output_end_.get(); }
  /// The end the launcher writes to; shares its mode with the launcher's standard output.
  int far_output_end() const { return far_output_end_.get(); }
  void close_far_output_end() { far_output_end_.reset(); }

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  bool read_some(Deadline deadline);
  TemporaryFolder folder_{};  // TMPDIR of the launcher
  pid_t pid_ = -1;
  UniqueFd watch_{};  // pidfd
  UniqueFd output_end_{};
  UniqueFd far_output_end_{};
  UniqueFd error_end_{};
  std::string output_{};
  std::string error_{};

 public:
  /// What the launcher left in its TMPDIR.
  std::vector<std::string> leftovers() const;
};

/// Waits for all children of this process, adopted ones included; false if some live on after
/// `limit`. Then they are killed.
bool no_process_left(Duration limit = kPatience);

/// Lines of `text`, the last one even if it has no newline.
std::vector<std::string> lines_of(const std::string& text);

/// "VmHWM" of /proc/<pid>/status in bytes.
std::size_t memory_of(pid_t pid, const std::string& field);

}  // namespace tutti::test
