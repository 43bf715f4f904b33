// StoreServerCore: the TCP store's server as a state machine over bytes. Each session first proves
// the job secret, then sends frames; replies queue up per session. No sockets here, so that tests
// and the fuzzer feed it directly. One thread.
// Bounds: a frame's length is checked before a byte of it is kept, and memory follows the bytes
// that really came; a session with unread replies is not read from; one that lets too much pile up
// is dropped.
#pragma once

#include "base/clock.hpp"
#include "net/secret.hpp"
#include "store/service.hpp"

#include <sys/uio.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti {

/// Bytes on their way to one client: copied pieces, and long values that are only referred to.
class StoreOutput {
 public:
  void add(std::string_view bytes);
  void add(WireWriter& frame);
  bool empty() const { return pieces_.empty(); }
  /// Bytes that this queue alone keeps in memory.
  std::size_t owned_bytes() const { return owned_bytes_; }
  /// Fills `parts` from the front; returns those used.
  std::span<iovec> gather(std::span<iovec> parts) const;
  void consume(std::size_t bytes);

 private:
  struct Piece {
    std::string copied{};
    StoreTable::Value shared{};  // set: used instead of `copied`
    std::string_view bytes() const { return shared ? std::string_view(*shared) : copied; }
  };
  std::deque<Piece> pieces_{};
  std::size_t sent_ = 0;  // of the first piece
  std::size_t owned_bytes_ = 0;
};

class StoreServerCore final : private StoreService::Outbox {
 public:
  using SessionId = StoreService::ClientId;

  explicit StoreServerCore(std::string secret);

  /// A connection came; its id is never used again.
  SessionId open(TimePoint now);
  /// It is gone. Unknown ids are ignored.
  void close(SessionId id);
  /// Bytes arrived. Never throws for what they hold: a session that misbehaves turns `is_doomed`.
  void receive(SessionId id, std::span<const std::byte> bytes, TimePoint now);

  bool knows(SessionId id) const { return sessions_.contains(id); }
  bool has_output(SessionId id) const { return !sessions_.at(id).output.empty(); }
  /// Fills `parts` with what to send next; returns those used.
  std::span<iovec> gather(SessionId id, std::span<iovec> parts) const;
  /// `bytes` of it were sent: goes on with input that had to wait for that.
  void consume(SessionId id, std::size_t bytes, TimePoint now);
  /// False while unread replies pile up, and for a doomed session.
  bool wants_input(SessionId id) const;
  /// To be closed once its output is sent.
  bool is_doomed(SessionId id) const;
  /// To be closed now: its output is not wanted or grew too large.
  bool is_dead(SessionId id) const;

  /// Sessions whose output or state changed since the last call.
  std::vector<SessionId> take_changed();

  std::optional<TimePoint> next_deadline() const;
  /// Ends waits and handshakes whose time is up.
  void expire(TimePoint now);
  /// The session that has been shaking hands the longest; nullopt if none is.
  std::optional<SessionId> oldest_stranger() const;

  std::size_t session_count() const { return sessions_.size(); }
  std::size_t buffered_bytes() const { return buffered_bytes_; }

 private:
  enum class Fate { open, doomed, dead };
  struct Session {
    std::unique_ptr<Handshake> handshake{};  // until it is accepted
    TimePoint handshake_deadline{};
    std::string input{};  // an unfinished frame, or frames that wait for output to drain
    StoreOutput output{};
    Fate fate = Fate::open;
  };

  void reply(StoreService::ClientId client, WireWriter& frame) override;
  void shake_hands(SessionId id, Session& session, std::span<const std::byte>& bytes);
  /// Carries out whole frames at the front; returns how many bytes they took.
  std::size_t run_frames(SessionId id, Session& session, std::string_view bytes, TimePoint now);
  void resume(SessionId id, Session& session, TimePoint now);
  void keep(SessionId id, Session& session, std::string_view rest);
  void doom(SessionId id, Session& session, Fate fate);
  void track(std::size_t before, std::size_t after) { buffered_bytes_ += after - before; }

  std::string secret_;
  StoreService service_;
  std::unordered_map<SessionId, Session> sessions_{};
  std::set<std::pair<TimePoint, SessionId>> strangers_{};  // by handshake deadline
  std::set<SessionId> changed_{};
  std::size_t buffered_bytes_ = 0;  // kept input and owned output of all sessions
  SessionId next_id_ = 1;
};

}  // namespace tutti
