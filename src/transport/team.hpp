// Team: the ranks of one group that share memory, and what each of them can see of the others.
//
// Each member owns one TeamArea in its segment and maps those of the others. What is where:
//   calls[s % kCallSlots]  the member's s-th call: fingerprint and, for small messages, the data.
//   It is
//                          written first, whatever the protocol, so that a disagreement is always
//                          seen.
//   progress               number of posts made in the ring protocol
//   ack                    last call this member has finished with (posted every second call)
//   cpu                    where this member ran when it last waited; a hint
//   arrivals, results      seat 0 only: the counter of the last-arriver protocol and its results
//   ring                   chunks of large messages, one behind the other
// Everything but `arrivals` and `departed` is written by its owner alone.
#pragma once

#include "plan/seat.hpp"
#include "transport/publish.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

inline constexpr std::uint32_t kCallSlots = 4;
inline constexpr std::size_t kSlotBytes = 40 + 32768;  ///< kInlineBytes of data and a factor
inline constexpr std::size_t kRingBytes = std::size_t{1} << 20;

/// One call. The cache line of the epoch also carries the fingerprint and the first 48 bytes of
/// data.
struct alignas(64) CallSlot {
  Epoch epoch;
  std::uint64_t fingerprint = 0;
  std::uint64_t history =
      0;  ///< of all calls up to this one: an earlier disagreement stays visible
  std::byte data[kSlotBytes];
};
static_assert(sizeof(CallSlot) % 64 == 0);

/// A member that fails the group writes why, then posts; the others read it on their slow looks.
struct alignas(64) FaultLine {
  Line line;
  std::uint32_t kind = 0;
  std::int32_t peer = -1;
  std::uint32_t text_bytes = 0;
  char text[2048];
};

struct TeamArea {
  Line progress;
  Line ack;
  alignas(64) std::atomic<int> cpu{-1};
  alignas(64) std::atomic<std::uint64_t> arrivals{0};
  alignas(64) std::atomic<std::uint32_t> departed{0};
  FaultLine fault;
  std::array<CallSlot, kCallSlots> calls;
  std::array<CallSlot, kCallSlots> results;
  alignas(4096) std::byte ring[kRingBytes];
};

class Team {
 public:
  struct Member {
    int world_rank = -1;
    TeamArea* area = nullptr;
  };
  /// `members` by seat; `bells` rings the bell of a world rank.
  Team(Seat seat, std::vector<Member> members, PublishMode mode, void (*ring_bell)(void*, int),
       void* bells);

  Seat seat() const { return seat_; }
  PublishMode mode() const { return mode_; }
  TeamArea& area(int seat) const { return *members_[static_cast<std::size_t>(seat)].area; }
  TeamArea& own() const { return area(seat_.rank); }
  int world_rank(int seat) const { return members_[static_cast<std::size_t>(seat)].world_rank; }

  /// Tells the others on which CPU this rank waits.
  void note_cpu();
  /// Moves this thread to a CPU with fewer members if it is the one that should: the highest seat
  /// of a CPU with at least two members more than another one that it may use. Its affinity stays.
  void spread();
  /// Whether the member at `seat` was last seen on the CPU that this rank noted.
  bool shares_cpu(int seat) const {
    return seat != seat_.rank && area(seat).cpu.load(std::memory_order_relaxed) == cpu_;
  }

  void post(Epoch& line, std::uint32_t value) { tutti::post(line, value, mode_, waker_); }
  /// Registers this rank's bell (or a futex sleeper) in a line of the team.
  void register_bell(Epoch& line) const { register_sleeper(line, bell_bit(seat_.rank), mode_); }
  std::uint32_t register_futex(Epoch& line) const {
    return register_sleeper(line, kFutexSleeper, mode_);
  }

 private:
  class TeamWaker final : public Waker {
   public:
    explicit TeamWaker(Team& team) : team_(team) {}
    void ring(std::uint32_t bits) override;

   private:
    Team& team_;
  };

  Seat seat_;
  std::vector<Member> members_;
  PublishMode mode_;
  void (*ring_bell_)(void*, int);
  void* bells_;
  int cpu_ = -1;  ///< as noted; lane lock
  TeamWaker waker_{*this};
};

}  // namespace tutti
