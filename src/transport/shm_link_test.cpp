// Shared-memory rings: one thread, two threads (for the thread sanitizer) and two processes.
#include "transport/shm_link.hpp"

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "base/unique_fd.hpp"
#include "transport/transport.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

/// An eventfd per side; rings the peer's.
class Bell final : public Waker {
 public:
  explicit Bell(int fd) : fd_(fd) {}
  void ring(std::uint32_t) override {
    ++rings;
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  std::atomic<int> rings{0};

 private:
  int fd_;
};

/// Two rings in memory that children share.
class Rings {
 public:
  explicit Rings(std::size_t capacity) : bytes_(2 * stride(capacity)) {
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    memory_ = static_cast<std::byte*>(at);
    forth_ = &ShmRing::create(memory_, capacity);
    back_ = &ShmRing::create(memory_ + stride(capacity), capacity);
  }
  ~Rings() { ::munmap(memory_, bytes_); }
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;

  std::unique_ptr<ShmLink> first(PublishMode mode = PublishMode::exchange) {
    return std::make_unique<ShmLink>(ShmLink::Options{.in = back_,
                                                      .in_capacity = back_->capacity,
                                                      .out = forth_,
                                                      .mode = mode,
                                                      .waker = &to_second});
  }
  std::unique_ptr<ShmLink> second(PublishMode mode = PublishMode::exchange) {
    return std::make_unique<ShmLink>(ShmLink::Options{.in = forth_,
                                                      .in_capacity = forth_->capacity,
                                                      .out = back_,
                                                      .mode = mode,
                                                      .waker = &to_first});
  }
  ShmRing& forth() { return *forth_; }
  ShmRing& back() { return *back_; }

  UniqueFd first_bell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  UniqueFd second_bell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  Bell to_first{first_bell.get()};
  Bell to_second{second_bell.get()};

 private:
  static std::size_t stride(std::size_t capacity) {
    return (ShmRing::footprint(capacity) + 127) / 128 * 128;
  }
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  ShmRing* forth_ = nullptr;
  ShmRing* back_ = nullptr;
};

std::size_t write_bytes(Link& link, std::span<const std::byte> bytes) {
  const std::array parts{bytes};
  return link.write(parts);
}
std::size_t read_bytes(Link& link, std::span<std::byte> bytes) {
  const std::array parts{bytes};
  return link.read(parts);
}

TEST(ShmLink, CarriesBytesAroundTheRingInAnyPieces) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  Rng rng(3);
  std::uint8_t next_in = 0;
  std::uint8_t next_out = 0;
  std::size_t total = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> out(1 + rng.below(6000));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(next_out + i);
    }
    const std::size_t written = write_bytes(*first, out);
    next_out = static_cast<std::uint8_t>(next_out + written);
    std::vector<std::byte> in(1 + rng.below(6000));
    const std::size_t read = read_bytes(*second, in);
    for (std::size_t i = 0; i < read; ++i) {
      ASSERT_EQ(in[i], static_cast<std::byte>(next_in++));
    }
    total += read;
  }
  EXPECT_GT(total, 3000U * 1000U);
}

TEST(ShmLink, FullRingTakesNothingUntilRead) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  std::vector<std::byte> bytes(10000);
  // Four records, each with a tag, and a line that is never free.
  EXPECT_EQ(write_bytes(*first, bytes), 4096U - 4 * 4 - 64);
  EXPECT_EQ(write_bytes(*first, bytes), 0U);
  EXPECT_TRUE(second->readable());
  EXPECT_EQ(read_bytes(*second, bytes), 4096U - 4 * 4 - 64);
  EXPECT_FALSE(second->readable());
  EXPECT_GE(write_bytes(*first, bytes), 3000U);
}

TEST(ShmLink, RingsOnlyWhoRegistered) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  std::vector<std::byte> bytes(5000);
  write_bytes(*first, std::span(bytes).first(10));
  EXPECT_EQ(rings.to_second.rings, 0);
  EXPECT_FALSE(second->arm(false)) << "there is something to read";
  read_bytes(*second, std::span(bytes).first(10));
  write_bytes(*first, std::span(bytes).first(10));
  EXPECT_EQ(rings.to_second.rings, 1) << "registered by the arm that failed";
  read_bytes(*second, std::span(bytes).first(10));
  EXPECT_TRUE(second->arm(false));
  EXPECT_TRUE(second->arm(false));
  write_bytes(*first, std::span(bytes).first(10));
  write_bytes(*first, std::span(bytes).first(10));
  EXPECT_EQ(rings.to_second.rings, 2) << "once per registration";

  write_bytes(*first, bytes);
  EXPECT_FALSE(second->arm(false));
  EXPECT_TRUE(first->arm(true)) << "no room";
  EXPECT_EQ(rings.to_first.rings, 0);
  read_bytes(*second, bytes);
  EXPECT_GE(rings.to_first.rings, 1);
  EXPECT_FALSE(first->arm(true));
}

TEST(ShmLink, FailureShowsAfterTheData) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  std::vector<std::byte> bytes(100);
  write_bytes(*first, bytes);
  EXPECT_FALSE(second->failure().has_value());
  second->fail({.kind = ErrorKind::peer_lost, .text = "process 7 ended"});
  second->fail({.kind = ErrorKind::internal, .text = "later"});
  EXPECT_TRUE(second->readable());
  EXPECT_FALSE(second->arm(false));
  EXPECT_EQ(read_bytes(*second, bytes), 100U);
  ASSERT_TRUE(second->failure().has_value());
  EXPECT_EQ(second->failure()->text, "process 7 ended");
  EXPECT_EQ(write_bytes(*second, bytes), 0U);
}

TEST(ShmLink, OldBytesNeverLookLikeARecord) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  // Every word a plausible tag of an even or an odd lap, and records whose beginnings move on from
  // lap to lap, some with runs of equal short ones between.
  constexpr std::uint32_t kOddLap = std::uint32_t{1} << 31;
  for (std::size_t round = 0; round < 3000; ++round) {
    std::vector<std::uint32_t> words(300, round % 3 == 0 ? 64 : 64 | kOddLap);
    const std::size_t count = round % 500 < 200 ? 1 : 1 + round % 300;
    const auto out = std::as_bytes(std::span(words).first(count));
    ASSERT_EQ(write_bytes(*first, out), out.size());
    std::vector<std::byte> in(4096);
    ASSERT_EQ(read_bytes(*second, in), out.size());
    ASSERT_FALSE(second->readable());
    ASSERT_EQ(read_bytes(*second, in), 0U);
  }
}

TEST(ShmLink, ImpossibleCountersAreAFailureNotAnAccess) {
  Rings rings(4096);
  auto first = rings.first();
  auto second = rings.second();
  std::vector<std::byte> bytes(100000);
  const std::uint32_t tag = 5000;
  std::memcpy(rings.forth().bytes(), &tag, sizeof tag);
  EXPECT_EQ(read_bytes(*second, bytes), 0U);
  ASSERT_TRUE(second->failure().has_value());
  EXPECT_EQ(second->failure()->kind, ErrorKind::internal);
  EXPECT_EQ(write_bytes(*first, bytes), 4096U - 4 * 4 - 64);
  rings.forth().head.value = 9000;
  EXPECT_EQ(write_bytes(*first, bytes), 0U);
  EXPECT_TRUE(first->failure().has_value());
}

TEST(ShmRing, IsFoundOnlyIfSound) {
  alignas(128) std::array<std::byte, ShmRing::footprint(4096)> memory{};
  EXPECT_EQ(ShmRing::find(memory.data(), memory.size()), nullptr);
  ShmRing& ring = ShmRing::create(memory.data(), 4096);
  EXPECT_EQ(ShmRing::find(memory.data(), memory.size()), &ring);
  EXPECT_EQ(ShmRing::find(memory.data(), memory.size() - 1), nullptr);
  EXPECT_EQ(ShmRing::find(memory.data(), 16), nullptr);
  EXPECT_EQ(ShmRing::find(memory.data() + 1, memory.size() - 1), nullptr);
  ring.capacity = 4095;
  EXPECT_EQ(ShmRing::find(memory.data(), memory.size()), nullptr);
  ring.capacity = 2048;
  EXPECT_EQ(ShmRing::find(memory.data(), memory.size()), nullptr);
}

/// A receive that looks into the ring finds a message of which a part was read before, when nothing
/// asked for it: that one is older than all that follows.
TEST(ShmLink, AnEarlyReceiveTakesTheMessageThatIsHalfRead) {
  Rings rings(4096);
  Transport sender(0, 2, {});
  Transport receiver(1, 2, {});
  sender.add_link(1, rings.first());
  receiver.add_link(0, rings.second());
  std::vector<std::byte> large(6000, std::byte{1});
  std::vector<std::byte> small(10, std::byte{2});
  SendOp first;
  SendOp second;
  first.peer = second.peer = 1;
  first.data = large.data();
  first.bytes = large.size();
  second.data = small.data();
  second.bytes = small.size();
  sender.send(first);
  sender.send(second);
  receiver.poll();
  while (sender.poll()) {
  }
  ASSERT_EQ(sender.pending_sends(), 0U) << "the rest of both lies in the ring";
  std::vector<std::byte> got(large.size());
  RecvOp recv;
  recv.peer = 0;
  recv.data = got.data();
  recv.bytes = got.size();
  EXPECT_EQ(receiver.recv_early(recv), Transport::Early::met);
  EXPECT_EQ(recv.state, TransferState::done);
  EXPECT_EQ(got, large);
  std::vector<std::byte> rest(small.size());
  RecvOp next;
  next.peer = 0;
  next.data = rest.data();
  next.bytes = rest.size();
  EXPECT_EQ(receiver.recv_early(next), Transport::Early::met);
  EXPECT_EQ(rest, small);
  RecvOp none;
  none.peer = 0;
  EXPECT_EQ(receiver.recv_early(none), Transport::Early::later);
  EXPECT_EQ(none.state, TransferState::idle);
}

/// One side of the traffic below: messages of many sizes both ways, checked byte by byte.
class Side {
 public:
  Side(int rank, std::unique_ptr<Link> link, int bell) : transport_(rank, 2, {}), bell_(bell) {
    transport_.add_link(1 - rank, std::move(link));
    peer_ = 1 - rank;
  }
  /// False if the traffic did not end in time or something was wrong.
  bool run(unsigned messages) {
    Rng sizes(11);
    for (unsigned i = 0; i < messages; ++i) {
      const std::size_t bytes =
          i % 50 == 49 ? 200000 + sizes.below(200000) : sizes.below(i % 5 == 0 ? 30000 : 200);
      if (!exchange(i, bytes)) {
        return false;
      }
    }
    return flush();
  }

 private:
  bool exchange(unsigned index, std::size_t bytes) {
    std::vector<std::byte> out(bytes, static_cast<std::byte>(index * 3 + unsigned(peer_)));
    std::vector<std::byte> in(bytes);
    SendOp send;
    send.peer = peer_;
    send.key.tag = index;
    send.data = out.data();
    send.bytes = bytes;
    RecvOp recv;
    recv.peer = peer_;
    recv.key.tag = index;
    recv.data = in.data();
    recv.bytes = bytes;
    transport_.send(send);
    transport_.recv(recv);
    const bool ended = wait([&] {
      return send.state.load(std::memory_order_acquire) != TransferState::active &&
             recv.state.load(std::memory_order_acquire) != TransferState::active;
    });
    const std::vector<std::byte> expected(bytes,
                                          static_cast<std::byte>(index * 3 + unsigned(1 - peer_)));
    const bool good = ended && recv.state.load() == TransferState::done && in == expected;
    if (!good) {
      transport_.cancel(send);
      transport_.cancel(recv);
    }
    return good;
  }
  bool flush() {
    return wait([&] { return transport_.pending_sends() == 0; });
  }
  template <typename Condition>
  bool wait(Condition condition) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    unsigned idle = 0;
    while (!condition()) {
      if (transport_.poll()) {
        idle = 0;
      } else if (++idle > 20 && transport_.arm()) {
        pollfd bell{.fd = bell_, .events = POLLIN, .revents = 0};
        ::poll(&bell, 1, 1000);
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(bell_, &count, sizeof(count));
      } else {
        ::sched_yield();
      }
      if (deadline.passed(std::chrono::steady_clock::now())) {
        return false;
      }
    }
    return true;
  }

  Transport transport_;
  int bell_;
  int peer_;
};

TEST(ShmLink, CarriesMessagesBetweenThreads) {
  for (const PublishMode mode : {PublishMode::exchange, PublishMode::asymmetric}) {
    if (mode == PublishMode::asymmetric && !register_for_membarrier()) {
      continue;
    }
    Rings rings(std::size_t{64} << 10);
    bool second_good = false;
    std::thread other(
        [&] { second_good = Side(1, rings.second(mode), rings.second_bell.get()).run(1000); });
    EXPECT_TRUE(Side(0, rings.first(mode), rings.first_bell.get()).run(1000));
    other.join();
    EXPECT_TRUE(second_good);
  }
}

TEST(ShmLink, CarriesMessagesBetweenThreadsOverATinyRing) {
  Rings rings(4096);
  bool second_good = false;
  std::thread other(
      [&] { second_good = Side(1, rings.second(), rings.second_bell.get()).run(200); });
  EXPECT_TRUE(Side(0, rings.first(), rings.first_bell.get()).run(200));
  other.join();
  EXPECT_TRUE(second_good);
}

TEST(ShmLink, CarriesMessagesBetweenProcesses) {
  const bool asymmetric = register_for_membarrier();
  const PublishMode mode = asymmetric ? PublishMode::asymmetric : PublishMode::exchange;
  Rings rings(std::size_t{64} << 10);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool good = (!asymmetric || register_for_membarrier()) &&
                      Side(1, rings.second(mode), rings.second_bell.get()).run(1000);
    ::_exit(good ? 0 : 1);
  }
  EXPECT_TRUE(Side(0, rings.first(mode), rings.first_bell.get()).run(1000));
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tutti
