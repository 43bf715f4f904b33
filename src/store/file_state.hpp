// FileState: what the handles of a FileStore in one process share: the log, the table rebuilt from
// it, who uses the file, and who waits in which barrier. Every change is a record appended under
// the file's lock, after all earlier records were taken in.
#pragma once

#include "store/file_log.hpp"
#include "store/process_mark.hpp"
#include "store/table.hpp"

#include <tutti/store.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>

namespace tutti {

class FileState {
 public:
  /// Joins the file. StoreError for a left-over one.
  FileState(const std::string& path, int world_size);
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;
  /// Leaves it, and removes the file as its last user.
  ~FileState();

  const std::string& path() const { return log_.path(); }

  /// Runs `apply(*this)` with the file locked and everything taken in.
  template <class Apply>
  std::invoke_result_t<Apply> locked(Deadline deadline, Apply apply) {
    const Exclusive exclusive(*this, deadline);
    return apply();
  }
  /// Runs `look()` on what is in the file now, without its lock.
  template <class Look>
  std::invoke_result_t<Look> current(Look look) {
    const std::lock_guard lock(mutex_);
    check_process();
    take_in();
    return look();
  }
  /// Waits until `ready()`, called as by `current`, is true; false when the deadline passed.
  template <class Ready>
  bool wait_until(Deadline deadline, Ready ready) {
    while (!current(ready)) {
      if (deadline.passed(std::chrono::steady_clock::now())) {
        return false;
      }
      wait_for_change(deadline);
    }
    return true;
  }

  // Inside locked() and current() only.
  const StoreTable& table() const { return table_; }
  bool in_barrier(const std::string& key, const std::string& ticket) const;
  int barrier_joined(const std::string& key) const;
  int barrier_world_size(const std::string& key) const;  ///< 0: nobody waits

  // Inside locked() only: each appends a record and carries it out.
  void set(const std::string& key, std::string_view value);
  void erase(const std::string& key);
  void append(const std::string& key, std::string_view value);
  void push(const std::string& queue, std::string_view value);
  std::string pop(const std::string& queue);  ///< of a queue that is not empty
  void arrive(const std::string& key, int world_size, const std::string& ticket);
  void withdraw(const std::string& key, const std::string& ticket);

  /// A name for one call of barrier, never used again.
  std::string new_ticket();

 private:
  struct Barrier {
    int world_size = 0;
    std::set<std::string> waiting{};
  };

  /// Holds the mutex, and the lock of the file.
  class Exclusive {
   public:
    Exclusive(FileState& state, Deadline deadline);
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    ~Exclusive();

   private:
    FileState& state_;
    std::unique_lock<std::mutex> lock_;
  };

  void check_process() const;
  void refuse_left_over(int world_size) const;
  void leave();
  void take_in();
  void take(std::uint8_t type, WireReader& fields);
  void record(WireWriter& writer);
  void wait_for_change(Deadline deadline);

  std::mutex mutex_{};
  FileLog log_;
  StoreTable table_;
  std::map<std::string, Barrier> barriers_{};
  std::unordered_map<std::string, ProcessMark> users_{};  // by token
  std::int64_t joined_ = 0;                               // users that ever joined
  std::unique_ptr<FileWatch> watch_{};                    // made by the first wait
  std::string token_;
  int world_size_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t generation_;
};

}  // namespace tutti
