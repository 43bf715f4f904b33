#include "transport/team.hpp"

#include <sched.h>

#include <array>
#include <utility>

namespace tutti {

Team::Team(Seat seat, std::vector<Member> members, PublishMode mode, void (*ring_bell)(void*, int),
           void* bells)
    : seat_(seat),
      members_(std::move(members)),
      mode_(mode),
      ring_bell_(ring_bell),
      bells_(bells) {}

void Team::note_cpu() {
  const int cpu = ::sched_getcpu();
  if (cpu != cpu_) {
    cpu_ = cpu;
    own().cpu.store(cpu, std::memory_order_relaxed);  // a hint: nothing is ordered by it
  }
}

void Team::spread() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  std::array<int, CPU_SETSIZE> members{};
  for (int seat = 0; seat < seat_.size; ++seat) {
    const int cpu = area(seat).cpu.load(std::memory_order_relaxed);
    if (cpu < 0 || cpu >= CPU_SETSIZE || (cpu == cpu_ && seat > seat_.rank)) {
      return;  // not everybody is known, or it is somebody else's turn
    }
    ++members[static_cast<std::size_t>(cpu)];
  }
  int best = cpu_;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) &&
        members[static_cast<std::size_t>(cpu)] < members[static_cast<std::size_t>(best)]) {
      best = cpu;
    }
  }
  if (members[static_cast<std::size_t>(best)] + 2 > members[static_cast<std::size_t>(cpu_)]) {
    return;
  }
  cpu_set_t target;
  CPU_ZERO(&target);
  CPU_SET(best, &target);
  if (::sched_setaffinity(0, sizeof target, &target) == 0) {
    ::sched_setaffinity(0, sizeof allowed, &allowed);
    note_cpu();
  }
}

void Team::TeamWaker::ring(std::uint32_t bits) {
  for (int seat = 0; seat < team_.seat_.size; ++seat) {
    // Seats that share a bit are rung together; a wake-up too many only costs a look.
    if ((bits & bell_bit(seat)) != 0) {
      team_.ring_bell_(team_.bells_, team_.world_rank(seat));
    }
  }
}

}  // namespace tutti
