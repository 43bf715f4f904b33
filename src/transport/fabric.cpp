#include "transport/fabric.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "transport/shm_link.hpp"
#include "transport/tcp_link.hpp"
#include "transport/team.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

namespace tutti {
namespace {

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool polls_readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr std::size_t kRingBytesPerPeer =
    Segment::whole_pages(ShmRing::footprint(limits::kMessageRingBytes));

/// What a rank allocates until the world group is made: its mark, a message ring per peer, and the
/// group's area. With that at hand no rank fails half way through the start.
std::size_t first_bytes(int world_size) {
  const auto peers = static_cast<std::size_t>(std::min(world_size, limits::kMaxLocalRanks) - 1);
  return Segment::whole_pages(1) + peers * kRingBytesPerPeer +
         Segment::whole_pages(sizeof(TeamArea));
}

/// Of the ring that a peer announced at `offset`; 0 if there is none. Read through the file: the
/// page, and the tables that map it, are made when the first message comes.
std::uint32_t announced_capacity(const Segment& segment, std::size_t offset, std::size_t bytes) {
  std::array<std::uint32_t, 2> shown{};  // magic, capacity
  const bool sound =
      offset <= limits::kSegmentReserveBytes - bytes && offset % alignof(ShmRing) == 0 &&
      segment.read(offset + offsetof(ShmRing, magic), std::as_writable_bytes(std::span(shown))) &&
      ShmRing::is_sound(shown[0], shown[1], bytes);
  return sound ? shown[1] : 0;
}
static_assert(offsetof(ShmRing, capacity) == offsetof(ShmRing, magic) + sizeof(std::uint32_t));

void watch(int epoll, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ensure(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "a descriptor can be watched");
}

}  // namespace

void Sleeper::sleep(Duration limit) {
  epoll_event event{};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  ::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(ms));
}

Fabric::Fabric(FabricOptions options)
    : options_(std::move(options)),
      segment_(Segment::create(first_bytes(options_.world_size))),
      peers_(static_cast<std::size_t>(options_.world_size)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  transport_ = std::make_unique<Transport>(options_.rank, options_.world_size, options_.on_fault);
  options_.host_id = environment("TUTTI_HOST_ID");
  options_.interfaces = environment("TUTTI_SOCKET_IFNAME");
  options_.tuning_file = environment("TUTTI_TUNING");
  transport_->set_wake_callback([this] { ring_own_bell(); });
  FabricResult result = connect_fabric(options_, segment_, bell_.get());
  host_of_ = std::move(result.host_of);
  publish_mode_ = result.asymmetric ? PublishMode::asymmetric : PublishMode::exchange;
  ranks_per_cpu_ = result.ranks_per_cpu;
  tuning_ = std::move(result.tuning);
  wait_policy_ = WaitPolicy::choose(environment("TUTTI_WAIT"), oversubscribed());
  adopt(std::move(result));
  return_sleeper(lease_sleeper());  // the first wait that gets long allocates nothing
}

Fabric::~Fabric() = default;

/// Takes over what the connector made: segments, bells, sockets; and builds the links.
void Fabric::adopt(FabricResult result) {
  for (int peer = 0; peer < options_.world_size; ++peer) {
    Peer& mine = peers_[index(peer)];
    FabricPeer& made = result.peers[index(peer)];
    mine.reason = std::move(made.reason);
    if (made.segment) {
      mine.segment = std::move(made.segment);
      mine.bell = std::move(made.bell);
      if (made.pid > 0) {
        mine.process = open_pidfd(made.pid);
      }
      if (!mine.process.valid()) {
        mine.keepalive = std::move(made.socket);
      }
      transport_->add_link(peer, make_shm_link(peer, made));
    } else if (made.tcp.valid()) {
      sockets_.push_back(made.tcp.get());
      transport_->add_link(peer, std::make_unique<TcpLink>(std::move(made.tcp), made.address));
    }
  }
}

std::unique_ptr<Link> Fabric::make_shm_link(int peer, const FabricPeer& made) {
  Peer& mine = peers_[index(peer)];
  mine.link_bell.fabric = this;
  mine.link_bell.peer = peer;
  const std::size_t footprint = ShmRing::footprint(limits::kMessageRingBytes);
  const std::uint32_t capacity = announced_capacity(*mine.segment, made.ring_from_peer, footprint);
  if (capacity == 0) {
    throw Internal(fmt::format("rank {} announced no usable message ring", peer));
  }
  std::byte* const in = mine.segment->base() + made.ring_from_peer;
  return std::make_unique<ShmLink>(
      ShmLink::Options{.in = std::launder(reinterpret_cast<ShmRing*>(in)),
                       .in_capacity = capacity,
                       .out = ShmRing::find(segment_.base() + made.ring_to_peer, footprint),
                       .mode = publish_mode_,
                       .waker = &mine.link_bell,
                       .name = "shm"});
}

std::byte* Fabric::base_of(int peer) const {
  if (peer == options_.rank) {
    return segment_.base();
  }
  const auto& segment = peers_[index(peer)].segment;
  ensure(segment != nullptr, "only local ranks have a mapped segment");
  return segment->base();
}

void Fabric::ring_bell(int peer) {
  const int fd = peer == options_.rank ? bell_.get() : peers_[index(peer)].bell.get();
  const std::uint64_t one = 1;
  // The counter is never read: sleepers watch it edge-triggered, so that several can share it.
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
}

void Fabric::ring_own_bell() { ring_bell(options_.rank); }

std::unique_ptr<Sleeper> Fabric::lease_sleeper() {
  {
    const std::scoped_lock lock(sleepers_mutex_);
    if (!idle_sleepers_.empty()) {
      auto sleeper = std::move(idle_sleepers_.back());
      idle_sleepers_.pop_back();
      return sleeper;
    }
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  ensure(epoll.valid(), "an epoll descriptor can be made");
  watch(epoll.get(), bell_.get(), EPOLLIN | EPOLLET);
  if (const int sockets = transport_->poll_fd(); sockets >= 0) {
    watch(epoll.get(), sockets, EPOLLIN);
  }
  return std::make_unique<Sleeper>(std::move(epoll));
}

void Fabric::return_sleeper(std::unique_ptr<Sleeper> sleeper) {
  const std::scoped_lock lock(sleepers_mutex_);
  idle_sleepers_.push_back(std::move(sleeper));
}

void Fabric::look_at_peers() {
  const std::unique_lock lock(look_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return;  // somebody looks right now
  }
  for (int peer = 0; peer < options_.world_size; ++peer) {
    Peer& mine = peers_[index(peer)];
    const int fd = mine.process.valid() ? mine.process.get() : mine.keepalive.get();
    if (mine.dead || fd < 0 || !polls_readable(fd)) {
      continue;
    }
    mine.dead = true;
    transport_->peer_died(
        peer, {.kind = ErrorKind::peer_lost, .text = "its process has ended", .peer = peer});
  }
}

std::string Fabric::describe(int peer) const {
  if (peer == options_.rank) {
    return "self";
  }
  const Peer& mine = peers_[index(peer)];
  std::string text = transport_->describe(peer);
  if (!mine.segment && !mine.reason.empty()) {
    text += fmt::format(" (no shared memory: {})", mine.reason);
  }
  return text;
}

MemoryUse Fabric::memory() const {
  const auto rings = std::count_if(peers_.begin(), peers_.end(),
                                   [](const Peer& peer) { return peer.segment != nullptr; });
  return {.set_aside = segment_.allocated(),
          .resident = segment_.resident(),
          .message_rings = static_cast<std::size_t>(rings) * kRingBytesPerPeer,
          .per_group = Segment::whole_pages(sizeof(TeamArea))};
}

void Fabric::abandon() {
  transport_->abandon();
  for (const int socket : sockets_) {
    ::close(socket);  // the link that owns the number is never used or destroyed in this process
  }
  sockets_.clear();
  for (Peer& peer : peers_) {
    peer.process.reset();
    peer.keepalive.reset();
    peer.bell.reset();
  }
  bell_.reset();
}

}  // namespace tutti
