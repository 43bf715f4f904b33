// Feeds the TCP store's server with scripts of what clients could do: connect, prove the secret or
// not, send frames or rubbish in any pieces, read or not, wait, vanish. Checks its bounds, and that
// nothing is left once all are gone.
// A script is a list of steps; its first byte's low three bits choose the step, the upper five the
// session, further bytes are arguments (see Script::step).
#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "store/server_core.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kMaxSessions = 16;
constexpr char kSecret[] = "fuzz";

class Script {
 public:
  explicit Script(std::string_view text) : rest_(text) {}

  void run() {
    while (!rest_.empty()) {
      step();
      settle();
    }
    for (const auto id : sessions_) {
      core_.close(id);
    }
    ensure(core_.session_count() == 0, "sessions left");
    ensure(core_.buffered_bytes() == 0, "buffered bytes left");
    ensure(!core_.next_deadline().has_value(), "deadlines left");
  }

 private:
  using Id = StoreServerCore::SessionId;

  void step() {
    const std::uint8_t head = byte();
    if ((head & 7) < 2) {
      open((head & 7) == 1);
      return;
    }
    if (sessions_.empty()) {
      return;
    }
    const Id id = sessions_[(head >> 3) % sessions_.size()];
    switch (head & 7) {
      case 2:  // bytes as they are
        return receive(id, take(byte()));
      case 3: {  // a frame with the right length: number, operation, fields
        const std::string_view payload = take(byte());
        std::string frame(4, '\0');
        frame[0] = static_cast<char>(payload.size());
        return receive(id, frame.append(payload));
      }
      case 4:
        return forget(id);
      case 5:  // time passes
        now_ += std::chrono::milliseconds(100) * byte();
        return core_.expire(now_);
      case 6:
        return consume(id, byte());
      case 7: {  // a long value, so that replies pile up
        WireWriter frame(1, static_cast<std::uint8_t>(StoreOp::append));
        frame.text(take(1)).text(std::string(std::size_t{64} * byte(), 'x'));
        return receive(id, frame.frame());
      }
      default:
        return;
    }
  }

  void open(bool proves_the_secret) {
    if (sessions_.size() == kMaxSessions) {
      return;
    }
    const Id id = core_.open(now_);
    sessions_.push_back(id);
    Handshake client(Role::client, kSecret);
    while (proves_the_secret && client.state() == Handshake::State::running) {
      core_.receive(id, client.take_output(), now_);
      const std::string answer = drain(id);
      client.feed(std::as_bytes(std::span(answer)));
    }
  }

  void receive(Id id, std::string_view bytes) {
    if (core_.wants_input(id)) {
      core_.receive(id, std::as_bytes(std::span(bytes)), now_);
    }
  }

  std::string drain(Id id) {
    std::string all;
    std::array<iovec, 3> parts;
    while (core_.has_output(id)) {
      std::size_t bytes = 0;
      for (const iovec& part : core_.gather(id, parts)) {
        all.append(static_cast<const char*>(part.iov_base), part.iov_len);
        bytes += part.iov_len;
      }
      core_.consume(id, bytes, now_);
    }
    return all;
  }

  void consume(Id id, std::size_t most) {
    std::array<iovec, 1> part;
    for (const iovec& piece : core_.gather(id, part)) {
      core_.consume(id, std::min(most, piece.iov_len), now_);
    }
  }

  void forget(Id id) {
    core_.close(id);
    std::erase(sessions_, id);
  }

  /// What the loop over the sockets does after each event.
  void settle() {
    for (const Id id : core_.take_changed()) {
      if (core_.is_dead(id) || (core_.is_doomed(id) && !core_.has_output(id))) {
        forget(id);
      }
    }
    ensure(core_.buffered_bytes() <= limits::kMaxStoreBufferedBytes + limits::kMaxStoreFrameBytes,
           "buffers over their bound");
  }

  std::uint8_t byte() {
    const std::string_view one = take(1);
    return one.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(one.front());
  }
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  StoreServerCore core_{kSecret};
  std::vector<Id> sessions_{};
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tutti::Script({reinterpret_cast<const char*>(data), bytes}).run();
  return 0;
}
