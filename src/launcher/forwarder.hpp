// Carries what the ranks print to the launcher's own outputs: whole lines with a prefix, in order
// per rank and stream, with bounded memory. When a reader is slow the ranks' pipes are not read, so
// that the ranks wait; when it is gone they are read and dropped. Log files get the exact bytes.
#pragma once

#include "base/unique_fd.hpp"
#include "launcher/console.hpp"
#include "launcher/line_splitter.hpp"
#include "launcher/options.hpp"
#include "net/poller.hpp"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tutti::launcher {

class Forwarder {
 public:
  /// Opens the log files. InvalidArgument if they cannot be made.
  explicit Forwarder(const RunOptions& options);

  /// The ends that the ranks write to; closed by release_far_ends once the ranks have them.
  int far_output(int rank) const { return stream(rank, 0).far_end.get(); }
  int far_error(int rank) const { return stream(rank, 1).far_end.get(); }
  void release_far_ends();

  /// Tokens below token_count() belong to the forwarder.
  void watch(Poller& poller);
  std::uint64_t token_count() const { return streams_.size() + consoles_.size(); }
  void on_event(std::uint64_t token);

  /// No process of the job is left: what is in the pipes now is all there is.
  void job_is_over();
  /// Everything was read and written, or has nowhere to go.
  bool drained() const;
  /// A line of the launcher itself, for standard error.
  void say(std::string_view line);

 private:
  struct Stream {
    UniqueFd near_end{};  // closed at end of file
    UniqueFd far_end{};
    UniqueFd log{};
    LineSplitter lines;
    Console* console = nullptr;  // null: not shown
    bool paused = false;         // not watched, because the console is full
  };
  const Stream& stream(int rank, int which) const {
    return streams_[static_cast<std::size_t>(2 * rank + which)];
  }
  void open_stream(Stream& stream, const std::string& log_path);
  void read(std::size_t index);
  bool read_once(Stream& stream);
  void end(Stream& stream);
  void write_log(Stream& stream, std::string_view bytes);
  void settle(Console& console);

  std::vector<std::unique_ptr<Console>> consoles_{};  // one, if both outputs lead to one place
  std::vector<bool> watched_{};                       // per console
  std::vector<Stream> streams_{};                     // rank 0 output, rank 0 error, rank 1 ...
  std::string chunk_{};
  Poller* poller_ = nullptr;
  bool over_ = false;
  bool log_failed_ = false;
};

}  // namespace tutti::launcher
