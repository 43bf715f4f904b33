// How a rank waits. Three phases: spin (cheap and fast), yield (lets other ranks of this CPU run),
// sleep. The first two are here; sleeping is the caller's, since only it knows what can wake it.
//
// Where ranks outnumber CPUs, a switch to another rank costs more than most operations, so its
// number decides. A rank that waits for one of its own CPU yields at once; one that waits for
// a rank of another CPU, which is probably running, spins about as long as a switch takes before it
// pays for one. Without the first it would spin in vain, without the second it would leave just
// before the news comes.
//
// A yield that takes long means that something foreign uses the CPU: each further yield would give
// it a whole scheduler slice, so yielding pauses for a while that doubles as long as slow yields
// keep coming.
#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <string_view>

namespace tutti {

struct WaitPolicy {
  Duration spin{std::chrono::microseconds(50)};
  Duration yield{std::chrono::microseconds(1000)};
  bool sleep = true;     ///< false: never sleep (TUTTI_WAIT=spin or yield)
  bool crowded = false;  ///< spin again after each yield: what has to run here may have run

  /// `mode` is TUTTI_WAIT: auto, spin, yield or sleep. InvalidArgument for anything else.
  static WaitPolicy choose(std::string_view mode, bool oversubscribed);
};

/// What a waiting thread has learnt about foreign load. One per lane; owner: whoever drives it.
struct ForeignLoad {
  TimePoint no_yield_until{};
  TimePoint last_seen{};
  Duration pause{};
};

/// One wait. Call pause() while what is waited for has not come.
class Backoff {
 public:
  Backoff(const WaitPolicy& policy, ForeignLoad& load) : policy_(policy), load_(load) {}
  /// Passes a little time. False once it is time to look around and sleep (and from then on).
  /// `yield_now`: what is waited for can only come if this CPU is given away.
  bool pause(bool yield_now = false);
  /// End of the last yield of this wait; the beginning of time if there was none, or if something
  /// foreign uses the CPUs.
  TimePoint last_yield() const {
    return yielded_ && last_ >= load_.no_yield_until ? last_ : TimePoint{};
  }
  /// Spin and yield phases start again: something has moved.
  void restart() {
    phase_ = Phase::spin;
    turns_ = 0;
    yielded_ = false;
  }

 private:
  enum class Phase { spin, yield, sleep };
  bool spin_turn();
  bool yield_turn();
  void note_foreign_load(TimePoint now);

  const WaitPolicy& policy_;
  ForeignLoad& load_;
  Phase phase_ = Phase::spin;
  unsigned turns_ = 0;  ///< of the present spin
  bool yielded_ = false;
  TimePoint spin_start_{};
  TimePoint yield_start_{};
  TimePoint last_{};  ///< end of the last yield
};

}  // namespace tutti
