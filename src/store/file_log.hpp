// FileLog: the file of a FileStore, a header and then records that are only ever appended.
// docs/wire.md, section "Store file", shows the bytes. Writers hold the lock; readers need none,
// because a record that is not whole yet fails its checksum and is left for later. What a killed
// writer left half done is cut off by the next writer.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "store/protocol.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tutti {

class FileLog {
 public:
  static constexpr std::size_t kHeaderBytes = 16;

  /// Opens or creates the file and takes its lock; nobody else can be between creating it and
  /// writing the header, or between being the last user and removing it. `mark` tells jobs apart.
  /// Throws StoreError, also for a file that is no store or of another job.
  FileLog(std::string path, std::uint64_t mark, Deadline deadline);

  /// Takes the lock if it is free. Held by this object, not by a thread.
  bool try_lock();
  void unlock();

  using Take = std::function<void(std::uint8_t type, WireReader& fields)>;
  /// Hands over the records appended since the last call. Without the lock it stops at the first
  /// that is not whole.
  void replay(const Take& take);
  /// As replay; needs the lock, and also cuts off a half-written record at the end. StoreError if
  /// the file is damaged elsewhere.
  void replay_and_mend(const Take& take);
  /// Needs the lock and a mended log. The record is not replayed.
  void append(WireWriter& record);
  /// Removes the file's name; needs the lock.
  void remove();

  const std::string& path() const { return path_; }

 private:
  enum class Damage { none, torn, corrupt };
  bool open_and_lock(Deadline deadline);
  void read_or_write_header(std::uint64_t mark);
  std::uint64_t size_in_bytes() const;
  Damage read_records(const Take& take);
  std::size_t read_at(std::uint64_t offset, char* target, std::size_t bytes) const;
  void write_at(std::uint64_t offset, std::string_view bytes);
  [[noreturn]] void fail(std::string_view what) const;

  std::string path_;
  UniqueFd fd_{};
  std::uint64_t offset_ = kHeaderBytes;  // end of what was replayed
  std::string buffer_{};
};

/// Wakes when a file changes, or soon anyway: a change made on another host of a shared file system
/// makes no event.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  void wait(Deadline deadline);

 private:
  UniqueFd fd_{};  // invalid: no inotify here, then waits are short
};

}  // namespace tutti
