// TcpStoreConnection: the client's end of a TCP store. Calls of several threads share one
// connection: each call has a number, whoever waits without a reader present reads, and hands the
// replies of others to them. So a call that waits for long does not keep others from the store.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "net/fork_guard.hpp"
#include "store/protocol.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tutti {

class TcpStoreConnection {
 public:
  /// `where`: "tcp://host:port", for messages.
  TcpStoreConnection(UniqueFd fd, std::string where);

  /// Sends the request and returns the fields of the reply. `operation` is for messages. Throws
  /// what the server reports (Timeout, InvalidArgument, Mismatch, StoreError), and StoreError if
  /// the connection is lost. `limit` is what the server was told; it gets a little longer to say
  /// so.
  std::string call(std::string_view operation, WireWriter& request, Duration limit);

  int fd() const { return fd_.get(); }
  const std::string& where() const { return where_; }

 private:
  struct Slot {
    bool done = false;
    std::string frame{};  // of the reply, length and number included
  };

  [[noreturn]] void fail(std::string_view operation, std::string_view why) const;
  void forget(std::uint32_t number);
  void send(const std::string& frame, Deadline deadline);
  /// Records why the connection is of no use and throws it as PeerLost.
  [[noreturn]] void lose(std::string_view why);
  std::string receive(Slot& slot, Deadline deadline);
  /// Waits a moment for bytes and takes them in; why that failed, or "".
  std::string read_input();
  void deliver_replies();
  std::string opened_reply(std::string_view operation, std::string frame) const;

  UniqueFd fd_;
  ForkGuard guard_;
  std::string where_;
  std::uint64_t generation_;

  std::mutex send_mutex_{};  // held while a frame is written; taken before mutex_
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::unordered_map<std::uint32_t, Slot*> waiting_{};  // under mutex_
  std::uint32_t next_number_ = 1;                       // under mutex_
  bool reading_ = false;                                // under mutex_: a thread is in recv
  std::string input_{};   // the reader's; under mutex_ while nobody reads
  std::string broken_{};  // under mutex_: why nothing works any more
};

}  // namespace tutti
