#include "store/server_core.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// Copied replies are joined up to this size, so that many small ones leave in one piece.
constexpr std::size_t kPieceBytes = 16384;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void StoreOutput::add(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  owned_bytes_ += bytes.size();
  const bool joins = !pieces_.empty() && pieces_.back().shared == nullptr &&
                     pieces_.back().copied.size() + bytes.size() <= kPieceBytes;
  if (joins) {
    pieces_.back().copied.append(bytes);
  } else {
    pieces_.push_back({.copied = std::string(bytes)});
  }
}

void StoreOutput::add(WireWriter& frame) {
  const std::string_view bytes = frame.frame();
  std::size_t done = 0;
  for (const WireWriter::Shared& part : frame.shared()) {
    add(bytes.substr(done, part.offset - done));
    pieces_.push_back({.shared = part.value});
    done = part.offset;
  }
  add(bytes.substr(done));
}

std::span<iovec> StoreOutput::gather(std::span<iovec> parts) const {
  std::size_t used = 0;
  for (const Piece& piece : pieces_) {
    if (used == parts.size()) {
      break;
    }
    std::string_view bytes = piece.bytes();
    bytes.remove_prefix(used == 0 ? sent_ : 0);
    parts[used++] = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  }
  return parts.first(used);
}

void StoreOutput::consume(std::size_t bytes) {
  sent_ += bytes;
  while (!pieces_.empty() && sent_ >= pieces_.front().bytes().size()) {
    sent_ -= pieces_.front().bytes().size();
    owned_bytes_ -= pieces_.front().copied.size();
    pieces_.pop_front();
  }
  ensure(!pieces_.empty() || sent_ == 0, "more output consumed than was queued");
}

StoreServerCore::StoreServerCore(std::string secret)
    : secret_(std::move(secret)), service_(*this) {}

StoreServerCore::SessionId StoreServerCore::open(TimePoint now) {
  const SessionId id = next_id_++;
  Session& session = sessions_[id];
  session.handshake = std::make_unique<Handshake>(Role::server, secret_);
  session.handshake_deadline = now + limits::kHandshakeTimeout;
  strangers_.emplace(session.handshake_deadline, id);
  return id;
}

void StoreServerCore::close(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) {
    return;
  }
  service_.leave(id);
  strangers_.erase({found->second.handshake_deadline, id});
  track(found->second.input.size() + found->second.output.owned_bytes(), 0);
  changed_.erase(id);
  sessions_.erase(found);
}

void StoreServerCore::receive(SessionId id, std::span<const std::byte> bytes, TimePoint now) {
  Session& session = sessions_.at(id);
  while (session.handshake != nullptr && !bytes.empty() && session.fate == Fate::open) {
    shake_hands(id, session, bytes);
  }
  if (session.fate != Fate::open || bytes.empty()) {
    return;
  }
  const std::string_view text = as_text(bytes);
  if (session.input.empty()) {  // the usual case: whole frames, not copied
    const std::size_t done = run_frames(id, session, text, now);
    keep(id, session, text.substr(done));
    return;
  }
  keep(id, session, text);
  resume(id, session, now);
}

std::span<iovec> StoreServerCore::gather(SessionId id, std::span<iovec> parts) const {
  return sessions_.at(id).output.gather(parts);
}

void StoreServerCore::consume(SessionId id, std::size_t bytes, TimePoint now) {
  Session& session = sessions_.at(id);
  const std::size_t before = session.output.owned_bytes();
  session.output.consume(bytes);
  track(before, session.output.owned_bytes());
  resume(id, session, now);
}

void StoreServerCore::resume(SessionId id, Session& session, TimePoint now) {
  if (session.fate != Fate::open || session.input.empty()) {
    return;
  }
  const std::size_t done = run_frames(id, session, session.input, now);
  track(session.input.size(), session.input.size() - done);
  session.input.erase(0, done);
  if (session.input.empty() && session.input.capacity() > kPieceBytes) {
    session.input = {};  // gives back what a large frame took
  }
}

void StoreServerCore::shake_hands(SessionId id, Session& session,
                                  std::span<const std::byte>& bytes) {
  Handshake& handshake = *session.handshake;
  const std::size_t count = std::min(bytes.size(), handshake.wanted());
  handshake.feed(bytes.first(count));
  bytes = bytes.subspan(count);
  const std::string_view output = as_text(handshake.take_output());
  if (!output.empty()) {
    track(0, output.size());
    session.output.add(output);
    changed_.insert(id);
  }
  if (handshake.state() == Handshake::State::refused) {
    doom(id, session, Fate::doomed);
  } else if (handshake.state() == Handshake::State::accepted) {
    strangers_.erase({session.handshake_deadline, id});
    session.handshake.reset();
  }
}

std::size_t StoreServerCore::run_frames(SessionId id, Session& session, std::string_view bytes,
                                        TimePoint now) {
  std::size_t done = 0;
  while (session.fate == Fate::open &&
         session.output.owned_bytes() < limits::kStoreBacklogPauseBytes) {
    const std::string_view rest = bytes.substr(done);
    if (rest.size() < kStoreLengthBytes) {
      break;
    }
    const std::size_t payload = load_u32(rest.data());
    if (payload > limits::kMaxStoreFrameBytes) {
      doom(id, session, Fate::dead);
      break;
    }
    if (rest.size() - kStoreLengthBytes < payload) {
      break;
    }
    try {
      service_.request(id, rest.substr(kStoreLengthBytes, payload), now);
    } catch (const std::exception&) {  // malformed, or out of memory for this one
      doom(id, session, Fate::dead);
    }
    done += kStoreLengthBytes + payload;
  }
  return done;
}

void StoreServerCore::keep(SessionId id, Session& session, std::string_view rest) {
  if (session.fate != Fate::open || rest.empty()) {
    return;
  }
  track(0, rest.size());
  session.input.append(rest);
  if (buffered_bytes_ > limits::kMaxStoreBufferedBytes) {
    doom(id, session, Fate::dead);
  }
}

void StoreServerCore::reply(StoreService::ClientId client, WireWriter& frame) {
  Session& session = sessions_.at(client);
  if (session.fate == Fate::dead) {
    return;
  }
  const std::size_t before = session.output.owned_bytes();
  session.output.add(frame);
  track(before, session.output.owned_bytes());
  changed_.insert(client);
  if (session.output.owned_bytes() > limits::kMaxStoreBacklogBytes ||
      buffered_bytes_ > limits::kMaxStoreBufferedBytes) {
    doom(client, session, Fate::dead);
  }
}

void StoreServerCore::doom(SessionId id, Session& session, Fate fate) {
  session.fate = std::max(session.fate, fate);
  changed_.insert(id);
}

bool StoreServerCore::wants_input(SessionId id) const {
  const Session& session = sessions_.at(id);
  return session.fate == Fate::open &&
         session.output.owned_bytes() < limits::kStoreBacklogPauseBytes;
}

bool StoreServerCore::is_doomed(SessionId id) const { return sessions_.at(id).fate != Fate::open; }

bool StoreServerCore::is_dead(SessionId id) const { return sessions_.at(id).fate == Fate::dead; }

std::vector<StoreServerCore::SessionId> StoreServerCore::take_changed() {
  std::vector<SessionId> ids(changed_.begin(), changed_.end());
  changed_.clear();
  return ids;
}

std::optional<TimePoint> StoreServerCore::next_deadline() const {
  std::optional<TimePoint> next = service_.next_deadline();
  if (!strangers_.empty() && (!next || strangers_.begin()->first < *next)) {
    next = strangers_.begin()->first;
  }
  return next;
}

void StoreServerCore::expire(TimePoint now) {
  service_.expire(now);
  while (!strangers_.empty() && strangers_.begin()->first <= now) {
    const SessionId id = strangers_.begin()->second;
    strangers_.erase(strangers_.begin());
    doom(id, sessions_.at(id), Fate::dead);
  }
}

std::optional<StoreServerCore::SessionId> StoreServerCore::oldest_stranger() const {
  if (strangers_.empty()) {
    return std::nullopt;
  }
  return strangers_.begin()->second;
}

}  // namespace tutti
