#include "transport/connect.hpp"

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/interface.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"
#include "transport/hosts.hpp"
#include "transport/publish.hpp"
#include "transport/shm_link.hpp"
#include "transport/start_exchange.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace tutti {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr std::uint64_t kHelloMagic = 0x31306f6c6c656874;  // "thello01"
constexpr std::uint64_t kMarkMagic = 0x31306b72616d7474;   // "ttmark01"

/// First page of every segment, so that a mapping can be recognised.
struct SegmentMark {
  std::uint64_t magic = kMarkMagic;
  std::int32_t rank = -1;
  std::array<char, 2 * kTokenBytes> token{};
};

/// What both ends of an abstract socket say, together with their segment and bell. The tokens come
/// from the store, which only ranks of the job can read: knowing the other's token is the proof of
/// identity.
struct Hello {
  std::uint64_t magic = kHelloMagic;
  std::int32_t rank = -1;
  std::int32_t accepted = 1;
  std::uint64_t ring = 0;
  std::array<char, 2 * kTokenBytes> your_token{};
};

struct Card {
  std::string token{};
  std::string name{};
  std::string cpus{};
  std::string host_id{};
  bool membarrier = false;
  std::string tuning{};
};

class Connector {
 public:
  Connector(const FabricOptions& options, Segment& segment, int bell)
      : options_(options),
        segment_(segment),
        bell_(bell),
        start_({.store = options.store,
                .rank = options.rank,
                .world_size = options.world_size,
                .timeout = options.timeout}),
        deadline_(start_.deadline()),
        size_(static_cast<std::size_t>(options.world_size)) {
    result_.peers.resize(size_);
  }

  FabricResult connect() {
    try {
      join_all();
    } catch (const Error& error) {
      start_.tell_others(error);
      throw;
    }
    return std::move(result_);
  }

 private:
  void join_all() {
    result_.tuning = TuningTable::load(options_.tuning_file);
    prepare_segment();
    exchange_cards();
    connect_to_lower();
    greet_higher(start_.exchange(kStartReached, reached_));
    read_replies();
    mapped_ = start_.exchange(kStartMapped, mapped_own_);
    settle();
    connect_over_tcp();
  }

  using Bits = std::vector<std::string>;  // [rank] = one '0' or '1' per lower rank

  FabricPeer& peer(int rank) { return result_.peers[static_cast<std::size_t>(rank)]; }
  bool bit(const Bits& bits, int high, int low) const {
    const std::string& row = bits[static_cast<std::size_t>(high)];
    return static_cast<std::size_t>(low) < row.size() && row[static_cast<std::size_t>(low)] == '1';
  }

  void prepare_segment();
  void exchange_cards();
  void compare_tuning() const;
  std::optional<std::string> why_not_tried(const Card& theirs) const;
  void connect_to_lower();
  void greet_higher(const Bits& reached);
  void read_replies();
  bool read_hello(int expected, int socket, Hello& hello);
  void send_hello(int to, int socket, bool accepted);
  void settle();
  void connect_over_tcp();
  void accept_tcp(int listener, int count);

  const FabricOptions& options_;
  Segment& segment_;
  int bell_;
  StartExchange start_;
  Deadline deadline_;
  std::size_t size_;
  UniqueFd listener_{};
  Card own_{};
  std::vector<Card> cards_{};
  std::string reached_{};
  std::string mapped_own_{};
  Bits mapped_{};
  FabricResult result_{};
};

std::string own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string text;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
      }
    }
  }
  return text.empty() ? "0" : text;
}

std::string card_text(const Card& card) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", card.token, card.name, card.cpus, card.host_id,
                     card.membarrier ? 1 : 0, card.tuning);
}

Card parse_card(const std::string& text, int rank) {
  std::array<std::string, 6> fields;
  std::size_t begin = 0;
  for (std::string& field : fields) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    field = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  if (fields[0].size() != 2 * kTokenBytes) {
    throw Mismatch(
        fmt::format("rank {} published a start card this version cannot read; all ranks "
                    "must use the same version of tutti",
                    rank));
  }
  return {fields[0], fields[1], fields[2], fields[3], fields[4] == "1", fields[5]};
}

void Connector::prepare_segment() {
  own_.token = random_token(kTokenBytes);
  own_.name = "tutti-" + random_token(kTokenBytes);
  own_.cpus = own_cpus();
  own_.host_id = options_.host_id;
  own_.membarrier = register_for_membarrier();
  own_.tuning = identity_of(result_.tuning);
  SegmentMark mark;
  mark.rank = options_.rank;
  std::copy(own_.token.begin(), own_.token.end(), mark.token.begin());
  std::memcpy(segment_.base() + segment_.allocate(sizeof mark), &mark, sizeof mark);
  if (options_.transport == "tcp" || options_.world_size == 1) {
    return;
  }
  if (segment_.why_private().empty()) {
    listener_ = listen_abstract(own_.name);
  } else if (options_.transport == "shm") {
    throw Unsupported(
        fmt::format("transport shm was asked for, but there is no memory to share: {}",
                    segment_.why_private()));
  } else {
    log_line(fmt::format("rank {} shares no memory and talks over TCP, which is slower: {}",
                         options_.rank, segment_.why_private()));
  }
}

void Connector::exchange_cards() {
  const std::vector<std::string> texts = start_.exchange(kStartCard, card_text(own_));
  result_.asymmetric = true;
  for (std::size_t r = 0; r < size_; ++r) {
    cards_.push_back(parse_card(texts[r], static_cast<int>(r)));
    result_.asymmetric = result_.asymmetric && cards_.back().membarrier;
  }
  compare_tuning();
}

/// Ranks with different tables would choose differently, and wait for each other for ever.
void Connector::compare_tuning() const {
  const auto digest = [](const Card& card) { return card.tuning.substr(0, card.tuning.find(' ')); };
  for (std::size_t r = 0; r < size_; ++r) {
    if (digest(cards_[r]) != digest(own_)) {
      throw Mismatch(
          fmt::format("joining the job (rank {} of {}): rank {} has the tuning table {}, this rank "
                      "{}; TUTTI_TUNING must name a file of equal rows on every rank",
                      options_.rank, options_.world_size, r, cards_[r].tuning, own_.tuning),
          static_cast<int>(r));
    }
  }
}

void Connector::send_hello(int to, int socket, bool accepted) {
  Hello hello;
  hello.rank = options_.rank;
  hello.accepted = accepted ? 1 : 0;
  if (accepted && peer(to).ring_to_peer == 0) {
    peer(to).ring_to_peer = segment_.allocate(ShmRing::footprint(limits::kMessageRingBytes));
    ShmRing::create(segment_.base() + peer(to).ring_to_peer, limits::kMessageRingBytes);
  }
  hello.ring = peer(to).ring_to_peer;
  const std::string& token = cards_[static_cast<std::size_t>(to)].token;
  std::copy(token.begin(), token.end(), hello.your_token.begin());
  const std::array fds{segment_.fd(), bell_};
  send_fds(socket, fds, std::as_bytes(std::span(&hello, 1)), deadline_);
}

/// Reads what the other end says and maps its segment. False, with a reason noted, if the two do
/// not share memory after all.
bool Connector::read_hello(int expected, int socket, Hello& hello) {
  std::vector<UniqueFd> fds =
      recv_fds(socket, std::as_writable_bytes(std::span(&hello, 1)), deadline_);
  const std::string_view token(hello.your_token.data(), hello.your_token.size());
  const bool known = hello.magic == kHelloMagic && token == own_.token && hello.rank >= 0 &&
                     hello.rank < options_.world_size && (expected < 0 || hello.rank == expected);
  if (!known || fds.size() != 2) {
    hello.rank = -1;
    return false;
  }
  FabricPeer& entry = peer(hello.rank);
  if (hello.accepted == 0) {
    entry.reason = "the peer could not map our segment";
    return false;
  }
  try {
    auto segment = std::make_unique<Segment>(Segment::map(std::move(fds[0])));
    SegmentMark mark;
    const bool shown = segment->read(0, std::as_writable_bytes(std::span(&mark, 1)));
    const std::string_view theirs(mark.token.data(), mark.token.size());
    if (!shown || mark.magic != kMarkMagic || mark.rank != hello.rank ||
        theirs != cards_[static_cast<std::size_t>(hello.rank)].token) {
      entry.reason = "the peer's segment does not show its mark";
      return false;
    }
    entry.segment = std::move(segment);
  } catch (const Error& error) {
    entry.reason = error.what();
    return false;
  }
  entry.bell = std::move(fds[1]);
  entry.ring_from_peer = hello.ring;
  entry.pid = peer_pid(socket);
  return true;
}

/// Why two ranks do not even try to share memory. The same on both, unless it is about this rank's.
std::optional<std::string> Connector::why_not_tried(const Card& theirs) const {
  if (options_.transport == "tcp") {
    return "transport tcp was asked for";
  }
  if (!segment_.why_private().empty()) {
    return segment_.why_private();
  }
  if (theirs.host_id != own_.host_id) {
    return "TUTTI_HOST_ID differs";
  }
  return std::nullopt;
}

void Connector::connect_to_lower() {
  for (int low = 0; low < options_.rank; ++low) {
    const Card& card = cards_[static_cast<std::size_t>(low)];
    FabricPeer& entry = peer(low);
    char bit = '0';
    if (auto reason = why_not_tried(card)) {
      entry.reason = *std::move(reason);
    } else if (auto socket = connect_abstract(card.name, deadline_)) {
      entry.socket = std::move(*socket);
      try {
        send_hello(low, entry.socket.get(), true);
      } catch (const PeerLost& error) {
        throw PeerLost(fmt::format("rank {} hung up: {}", low, error.what()), low);
      }
      bit = '1';
    } else {
      entry.reason = "its abstract socket cannot be reached";
    }
    reached_ += bit;
  }
}

/// All higher ranks that reached us are in the listener's queue by now.
void Connector::greet_higher(const Bits& reached) {
  int expected = 0;
  for (int high = options_.rank + 1; high < options_.world_size; ++high) {
    expected += bit(reached, high, options_.rank) ? 1 : 0;
    if (!bit(reached, high, options_.rank)) {
      peer(high).reason = why_not_tried(cards_[static_cast<std::size_t>(high)])
                              .value_or("it could not reach our abstract socket");
    }
  }
  while (expected > 0) {
    UniqueFd socket = accept_connection(listener_.get(), deadline_);
    Hello hello;
    const bool mapped = read_hello(-1, socket.get(), hello);
    if (hello.rank <= options_.rank || peer(hello.rank).socket.valid()) {
      continue;  // not one of ours; it gets no answer
    }
    send_hello(hello.rank, socket.get(), mapped);
    peer(hello.rank).socket = std::move(socket);
    --expected;
  }
}

void Connector::read_replies() {
  for (int low = 0; low < options_.rank; ++low) {
    FabricPeer& entry = peer(low);
    Hello hello;
    try {
      const bool mapped = entry.socket.valid() && read_hello(low, entry.socket.get(), hello);
      mapped_own_ += mapped ? '1' : '0';
    } catch (const PeerLost& error) {
      throw PeerLost(fmt::format("rank {} did not answer: {}", low, error.what()), low);
    }
  }
}

/// Everybody now sees the same table of pairs: hosts and CPU shares follow from it.
void Connector::settle() {
  const HostTable hosts =
      derive_hosts(options_.world_size, [&](int high, int low) { return bit(mapped_, high, low); });
  result_.host_of = hosts.host_of;
  std::vector<std::string> cpus;
  for (std::size_t r = 0; r < size_; ++r) {
    if (result_.host_of[r] == result_.host_of[static_cast<std::size_t>(options_.rank)]) {
      cpus.push_back(cards_[r].cpus);
    }
  }
  const int count = std::max(count_cpus(cpus), 1);
  result_.ranks_per_cpu = (static_cast<int>(cpus.size()) + count - 1) / count;
  for (int other = 0; other < options_.world_size; ++other) {
    const bool pair = bit(mapped_, std::max(other, options_.rank), std::min(other, options_.rank));
    if (other == options_.rank || (pair && hosts.same(other, options_.rank))) {
      continue;
    }
    FabricPeer& entry = peer(other);
    entry.segment.reset();
    if (entry.reason.empty()) {
      entry.reason = "not all ranks of its host can share memory";
    }
    if (options_.transport == "shm") {
      throw Unsupported(
          fmt::format("transport shm was asked for, but ranks {} and {} cannot share "
                      "memory: {}",
                      options_.rank, other, entry.reason));
    }
  }
}

void Connector::connect_over_tcp() {
  std::vector<int> remote;
  for (int other = 0; other < options_.world_size; ++other) {
    if (other != options_.rank && peer(other).segment == nullptr) {
      remote.push_back(other);
    }
  }
  if (remote.empty()) {
    return;
  }
  const auto higher = static_cast<int>(std::count_if(
      remote.begin(), remote.end(), [this](int other) { return other > options_.rank; }));
  const InterfaceAddress address = local_address_for(options_.interfaces, options_.local_address);
  UniqueFd listener;
  std::string own = "none";
  if (higher > 0) {
    listener = listen_tcp(address.address, 0);
    own = local_address(listener.get()).text();
  }
  start_.publish(kStartTcp, own);
  // Also those that listen for nobody say that they have come this far.
  const std::vector<std::string> addresses = start_.fetch(kStartTcp, remote);
  for (std::size_t i = 0; i < remote.size() && remote[i] < options_.rank; ++i) {
    const std::string& target = addresses[i];
    const std::size_t colon = target.rfind(':');
    std::uint16_t port = 0;
    std::from_chars(target.data() + colon + 1, target.data() + target.size(), port);
    UniqueFd socket = connect_tcp(target.substr(0, colon), port, deadline_);
    authenticate(socket.get(), options_.secret, Role::client, deadline_);
    const std::int32_t rank = options_.rank;
    write_full(socket.get(), std::as_bytes(std::span(&rank, 1)), deadline_);
    peer(remote[i]).tcp = std::move(socket);
    peer(remote[i]).address = target;
  }
  accept_tcp(listener.get(), higher);
}

void Connector::accept_tcp(int listener, int count) {
  while (count > 0) {
    UniqueFd socket = accept_connection(listener, deadline_);
    std::int32_t rank = -1;
    try {
      authenticate(socket.get(), options_.secret, Role::server, deadline_);
      read_full(socket.get(), std::as_writable_bytes(std::span(&rank, 1)), deadline_);
    } catch (const PeerLost&) {
      continue;  // a stranger; the ranks we wait for will still come
    }
    const bool expected = rank > options_.rank && rank < options_.world_size &&
                          peer(rank).segment == nullptr && !peer(rank).tcp.valid();
    if (!expected) {
      continue;
    }
    peer(rank).address = peer_address(socket.get()).text();
    peer(rank).tcp = std::move(socket);
    --count;
  }
}

}  // namespace

FabricResult connect_fabric(const FabricOptions& options, Segment& segment, int bell) {
  return Connector(options, segment, bell).connect();
}

}  // namespace tutti
