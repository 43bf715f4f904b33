#include "transport/team.hpp"

#include <utility>

namespace tutti {

Team::Team(Seat seat, std::vector<Member> members, PublishMode mode, void (*ring_bell)(void*, int),
           void* bells)
    : seat_(seat),
      members_(std::move(members)),
      mode_(mode),
      ring_bell_(ring_bell),
      bells_(bells) {}

void Team::TeamWaker::ring(std::uint32_t bits) {
  for (int seat = 0; seat < team_.seat_.size; ++seat) {
    // Seats that share a bit are rung together; a wake-up too many only costs a look.
    if ((bits & bell_bit(seat)) != 0) {
      team_.ring_bell_(team_.bells_, team_.world_rank(seat));
    }
  }
}

}  // namespace tutti
