#include "transport/sim_link.hpp"

#include "base/rng.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <vector>

namespace tutti {
namespace {

struct Packet {
  TimePoint arrives{};
  std::vector<std::byte> bytes{};
  std::size_t taken = 0;
};

/// One direction of a link.
struct Pipe {
  SimLinkOptions options{};
  std::uint64_t id = 0;
  int from = -1;
  int to = -1;
  std::deque<Packet> packets{};
  std::size_t under_way = 0;  // bytes written and not read
  TimePoint sending_until{};
  TimePoint last_arrival{};
  TimePoint stalled_until{};
};

enum class Act : std::uint64_t { write = 1, read, crash };

}  // namespace

struct SimNetwork::State {
  explicit State(std::uint64_t seed) : rng(seed) {}

  bool chance(unsigned percent) { return percent != 0 && rng.below(100) < percent; }
  void trace(Act act, std::uint64_t who, std::uint64_t what) {
    for (const std::uint64_t value : {static_cast<std::uint64_t>(act), who, what,
                                      static_cast<std::uint64_t>(now.time_since_epoch().count())}) {
      hash = (hash ^ value) * 0x100000001b3U;
      hash ^= hash >> 29;
    }
  }
  bool crashed(int node) const {
    const auto found = crashes.find(node);
    return found != crashes.end() && found->second <= now;
  }
  std::size_t write(Pipe& pipe, std::span<const std::span<const std::byte>> parts);
  std::size_t read(Pipe& pipe, std::span<const std::span<std::byte>> parts);
  std::size_t arrived(const Pipe& pipe) const;
  void cut_off(int node);

  Rng rng;
  TimePoint now{};
  std::uint64_t hash = 0xcbf29ce484222325U;
  std::priority_queue<TimePoint, std::vector<TimePoint>, std::greater<>> events;
  std::map<int, TimePoint> crashes;
  std::vector<std::shared_ptr<Pipe>> pipes;
};

std::size_t SimNetwork::State::write(Pipe& pipe,
                                     std::span<const std::span<const std::byte>> parts) {
  if (crashed(pipe.from) || now < pipe.stalled_until) {
    return 0;
  }
  std::size_t wanted = 0;
  for (const auto& part : parts) {
    wanted += part.size();
  }
  std::size_t bytes = std::min(wanted, pipe.options.window_bytes - pipe.under_way);
  if (bytes == 0) {
    return 0;
  }
  if (chance(pipe.options.stall_percent)) {
    pipe.stalled_until = now + pipe.options.stall;
    events.push(pipe.stalled_until);
    return 0;
  }
  if (chance(pipe.options.short_percent)) {
    bytes = 1 + rng.below(bytes);
  }
  Packet packet;
  packet.bytes.reserve(bytes);
  std::uint64_t digest = bytes;
  for (const auto& part : parts) {
    const std::size_t some = std::min(part.size(), bytes - packet.bytes.size());
    packet.bytes.insert(packet.bytes.end(), part.begin(),
                        part.begin() + static_cast<std::ptrdiff_t>(some));
  }
  for (std::size_t at = 0; at < packet.bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, packet.bytes.data() + at, std::min(sizeof(word), packet.bytes.size() - at));
    digest = (digest ^ word) * 0x100000001b3U;
    digest ^= digest >> 32;
  }
  const auto on_wire =
      std::llround(static_cast<double>(bytes) / pipe.options.bytes_per_second * 1e9);
  pipe.sending_until = std::max(pipe.sending_until, now) + Duration(on_wire);
  const auto jitter = static_cast<std::uint64_t>(pipe.options.jitter.count());
  packet.arrives = pipe.sending_until + pipe.options.delay +
                   Duration(jitter != 0 ? static_cast<std::int64_t>(rng.below(jitter)) : 0);
  packet.arrives = pipe.last_arrival = std::max(packet.arrives, pipe.last_arrival);
  events.push(packet.arrives);
  trace(Act::write, pipe.id, digest);
  if (!crashed(pipe.to)) {
    pipe.under_way += bytes;
    pipe.packets.push_back(std::move(packet));
  }
  return bytes;
}

std::size_t SimNetwork::State::arrived(const Pipe& pipe) const {
  std::size_t bytes = 0;
  for (const Packet& packet : pipe.packets) {
    if (packet.arrives > now) {
      break;
    }
    bytes += packet.bytes.size() - packet.taken;
  }
  return bytes;
}

std::size_t SimNetwork::State::read(Pipe& pipe, std::span<const std::span<std::byte>> parts) {
  std::size_t left = crashed(pipe.to) ? 0 : arrived(pipe);
  if (left > 1 && chance(pipe.options.short_percent)) {
    left = 1 + rng.below(left);
  }
  std::size_t total = 0;
  for (std::span<std::byte> part : parts) {
    while (!part.empty() && left != 0) {
      Packet& packet = pipe.packets.front();
      const std::size_t bytes = std::min({part.size(), left, packet.bytes.size() - packet.taken});
      std::memcpy(part.data(), packet.bytes.data() + packet.taken, bytes);
      part = part.subspan(bytes);
      packet.taken += bytes;
      left -= bytes;
      total += bytes;
      if (packet.taken == packet.bytes.size()) {
        pipe.packets.pop_front();
      }
    }
  }
  pipe.under_way -= total;
  if (total != 0) {
    trace(Act::read, pipe.id, total);
  }
  return total;
}

/// What a node that crashes now had sent arrives in part; nothing reaches it any more.
void SimNetwork::State::cut_off(int node) {
  trace(Act::crash, static_cast<std::uint64_t>(node), 0);
  for (const auto& pipe : pipes) {
    if (pipe->to == node) {
      pipe->packets.clear();
      pipe->under_way = 0;
    }
    while (pipe->from == node && !pipe->packets.empty() && pipe->packets.back().arrives > now &&
           rng.below(2) == 0) {
      pipe->under_way -= pipe->packets.back().bytes.size() - pipe->packets.back().taken;
      pipe->packets.pop_back();
    }
    if (pipe->from == node) {
      events.push(std::max(pipe->last_arrival, now + pipe->options.delay));
    }
  }
}

class SimNetwork::End final : public Link {
 public:
  End(std::shared_ptr<State> state, std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out)
      : state_(std::move(state)), in_(std::move(in)), out_(std::move(out)) {}

  std::size_t write(std::span<const std::span<const std::byte>> parts) override {
    return state_->write(*out_, parts);
  }
  std::size_t read(std::span<const std::span<std::byte>> parts) override {
    return state_->read(*in_, parts);
  }
  std::optional<Failure> failure() override {
    const int peer = in_->from;
    const bool seen = state_->crashed(peer) && in_->packets.empty() &&
                      state_->now >= state_->crashes.at(peer) + in_->options.delay;
    if (!seen && !state_->crashed(in_->to)) {
      return std::nullopt;
    }
    return Failure{.kind = ErrorKind::peer_lost,
                   .text = fmt::format("the connection {} broke", describe())};
  }
  bool arm(bool want_write) override {
    const bool room = out_->under_way < out_->options.window_bytes &&
                      state_->now >= out_->stalled_until && !state_->crashed(out_->from);
    return state_->arrived(*in_) == 0 && !failure() && !(want_write && room);
  }
  int fd() const override { return -1; }
  std::string describe() const override {
    return fmt::format("sim link between {} and {}", in_->to, in_->from);
  }

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Pipe> in_;
  const std::shared_ptr<Pipe> out_;
};

SimNetwork::SimNetwork(std::uint64_t seed) : state_(std::make_shared<State>(seed)) {}
SimNetwork::~SimNetwork() = default;

SimNetwork::Ends SimNetwork::connect(Nodes nodes, const SimLinkOptions& options) {
  const auto pipe = [&](int from, int to) {
    auto made = std::make_shared<Pipe>();
    made->options = options;
    made->id = state_->pipes.size();
    made->from = from;
    made->to = to;
    state_->pipes.push_back(made);
    return made;
  };
  const auto forth = pipe(nodes.first, nodes.second);
  const auto back = pipe(nodes.second, nodes.first);
  return {.first = std::make_unique<End>(state_, back, forth),
          .second = std::make_unique<End>(state_, forth, back)};
}

void SimNetwork::crash_at(int node, TimePoint at) {
  state_->crashes[node] = at;
  state_->events.push(at);
}

TimePoint SimNetwork::now() const { return state_->now; }

bool SimNetwork::advance() {
  State& state = *state_;
  while (!state.events.empty() && state.events.top() <= state.now) {
    state.events.pop();
  }
  if (state.events.empty()) {
    return false;
  }
  const TimePoint before = state.now;
  state.now = state.events.top();
  for (const auto& [node, at] : state.crashes) {
    if (at > before && at <= state.now) {
      state.cut_off(node);
    }
  }
  return true;
}

std::uint64_t SimNetwork::trace_hash() const { return state_->hash; }

}  // namespace tutti
