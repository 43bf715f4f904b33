// One of the launcher's own outputs, written without ever blocking the launcher and without
// changing the mode of the descriptor, which is shared with whoever started us. How:
//   pipe, terminal  opened once more through /proc, with O_NONBLOCK in this new description only
//   socket          send with MSG_DONTWAIT
//   else            plain write: files do not block; a pipe or terminal that cannot be opened again
//                   gets at most PIPE_BUF bytes when the poller says that it is writable
// Writes end at line ends where possible and are at most PIPE_BUF bytes, which a pipe takes whole
// or not at all: lines of several writers of one pipe do not mix. What cannot be written waits in a
// buffer; full() asks to read no more from the ranks.
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::launcher {

class Console {
 public:
  /// Does not own `fd`.
  explicit Console(int fd);

  /// Where append's lines go; write() must follow.
  std::string& buffer() { return buffer_; }
  /// Writes what can be written now.
  void write();
  std::size_t pending() const { return buffer_.size() - written_; }
  bool full() const;
  /// Enough was written for more to be read.
  bool roomy() const;
  /// The reader has gone; everything further is dropped.
  bool closed() const { return closed_; }
  /// To be watched for writability while something is pending; -1: regular file, never needed.
  int watchable() const { return kind_ == Kind::file ? -1 : target_; }

 private:
  enum class Kind { reopened, socket, file, careful };
  std::size_t next_chunk() const;
  bool is_writable() const;
  void close();

  UniqueFd own_{};  // the second description, if any
  int target_ = -1;
  Kind kind_ = Kind::file;
  std::string buffer_{};
  std::size_t written_ = 0;  // bytes of buffer_ that are out already
  bool closed_ = false;
};

/// Whether two descriptors lead to one file, pipe or terminal (as after 2>&1).
bool same_target(int fd, int other);

}  // namespace tutti::launcher
