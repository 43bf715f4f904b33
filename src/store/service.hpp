// StoreService: what the TCP store's server does with a request, without sockets, threads or a
// clock of its own. A call that must wait is parked: its keys are indexed by the first one that is
// missing, so that a set wakes only those who wait for it, and nobody polls.
// Read next: server_core.hpp, which turns bytes into requests.
#pragma once

#include "base/clock.hpp"
#include "store/protocol.hpp"
#include "store/table.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti {

class StoreService {
 public:
  using ClientId = std::uint64_t;

  /// Where replies go. A reply must not call back into the service.
  class Outbox {
   public:
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;
    virtual ~Outbox() = default;
    virtual void reply(ClientId client, WireWriter& frame) = 0;
  };

  explicit StoreService(Outbox& outbox);

  /// Carries out one request frame (without its length). Throws MalformedFrame.
  void request(ClientId client, std::string_view frame, TimePoint now);
  /// Forgets what `client` was waiting for.
  void leave(ClientId client);
  /// When `expire` has something to do; nullopt: never.
  std::optional<TimePoint> next_deadline() const;
  /// Tells those whose time is up what they were missing.
  void expire(TimePoint now);

  std::size_t parked_count() const { return parked_.size(); }

 private:
  using Ticket = std::uint64_t;  // grows, so that order of tickets is order of arrival

  struct Call {
    ClientId client = 0;
    std::uint32_t number = 0;
    StoreOp op{};
    TimePoint now{};
    WireReader args;
  };
  struct Parked {
    ClientId client = 0;
    std::uint32_t number = 0;
    StoreOp op{};
    std::vector<std::string> keys{};  // of a barrier or a queue: one
    std::size_t bytes = 0;            // of the keys
    std::size_t cursor = 0;           // keys[cursor] is missing; those before it have existed
    std::uint32_t world_size = 0;     // barrier, wait_workers
    TimePoint deadline{};
    Duration limit{};
  };
  struct Barrier {
    std::uint32_t world_size = 0;
    std::set<Ticket> waiting{};
  };

  void run(Call& call);
  void join(Call& call);
  void wait_workers(Call& call);
  void set(Call& call);
  void multi_set(Call& call);
  void add(Call& call);
  void compare_set(Call& call);
  void append(Call& call);
  void wait_for_keys(Call& call, std::vector<std::string> keys, Duration limit);
  void check(Call& call);
  void delete_key(Call& call);
  void list_keys(Call& call);
  void queue_push(Call& call);
  void queue_pop(Call& call);
  void queue_len(Call& call);
  void barrier(Call& call);

  void done(const Call& call);
  void answer(ClientId client, WireWriter& frame);
  void refuse(const Call& call, ErrorKind kind, std::string_view text);
  void send_values(const Parked& call);

  Ticket park(Parked call);
  Parked unpark(Ticket ticket);
  void unindex(Ticket ticket, const Parked& call);
  void key_appeared(const std::string& key);
  /// Completes the call if all its keys exist, else files it under one that does not.
  void advance(Ticket ticket);
  std::string timeout_text(const Parked& call) const;
  std::string workers_text() const;

  Outbox& outbox_;
  StoreTable table_;
  std::unordered_map<Ticket, Parked> parked_{};
  std::unordered_map<ClientId, std::set<Ticket>> by_client_{};
  std::unordered_map<std::string, std::set<Ticket>> by_key_{};
  std::unordered_map<std::string, std::set<Ticket>> by_queue_{};
  std::unordered_map<std::string, Barrier> barriers_{};
  std::set<Ticket> for_workers_{};
  std::set<std::pair<TimePoint, Ticket>> deadlines_{};
  std::size_t parked_bytes_ = 0;
  Ticket next_ticket_ = 1;
  std::uint32_t workers_ = 0;           // that ever joined
  std::uint32_t expected_workers_ = 0;  // 0: nobody said
};

}  // namespace tutti
