// The publish/sleep pair (transport/publish.hpp) of one poster and up to two sleepers in every
// order, with stores that become visible late: each rank has a store buffer that empties whenever
// it likes, in order. That is what x86 may do, and the weakest that the pair has to bear: its loads
// and stores are ordered by release, acquire and seq_cst but for the poster's store before its
// load, which is the matter of the two forms.
#include "model/explore.hpp"
#include "transport/publish.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace tutti::model {
namespace {

enum class Bed : std::uint8_t {
  futex,  ///< sleeps only if no post has taken the registration since
  bell    ///< sleeps until the bell rang, since the last look or now
};

struct Rules {
  PublishMode mode = PublishMode::asymmetric;
  Bed bed = Bed::futex;
  int sleepers = 1;
  std::uint32_t posts = 2;
  bool keeps_registration = false;  ///< as ShmLink: no second one while the first stands
  // What a test breaks.
  bool barrier = true;       ///< the sleeper's, asymmetric
  bool exchange = true;      ///< the poster's store is one, exchange
  bool looks_again = true;   ///< after the registration
  bool posts_first = true;   ///< before the look for sleepers
  bool takes_before = true;  ///< registrations are taken out before, not after, the waking
  bool tells_takings =
      true;  ///< a sleeper sees that its registration was taken, not only the value
};

class PublishModel {
 public:
  explicit PublishModel(const Rules& rules) : rules_(&rules) {}

  /// 0: the poster; then the sleepers; then the poster's store buffer.
  int actions() const { return rules_->sleepers + 2; }
  bool finished() const {
    bool done = poster_.done == rules_->posts;
    for (int i = 0; i < rules_->sleepers; ++i) {
      done = done && sleeper(i).step == Step::done;
    }
    return done;
  }
  const std::string& violation() const { return violation_; }

  bool act(int action) {
    if (action == 0) {
      return post();
    }
    if (action <= rules_->sleepers) {
      return sleep(action - 1);
    }
    if (buffered_ == 0) {
      return false;
    }
    flush_one();
    return true;
  }

  std::string key() const {
    Key key;
    key.add(value_);
    key.add(registered_);
    key.add(takings_);
    key.add(buffered_);
    key.add(poster_.done);
    key.add(poster_.step);
    key.add(poster_.taken);
    for (const Sleeper& each : sleepers_) {
      key.add(each.step);
      key.add(each.seen);
      key.add(each.registration);
      key.add(each.target);
      key.add(each.rung);
    }
    return key.take();
  }

 private:
  enum class Step : std::uint8_t { look, enlist, barrier, look_again, lie_down, asleep, done };
  struct Poster {
    std::uint32_t done = 0;
    std::uint32_t step = 0;
    std::uint32_t taken = 0;
  };
  struct Sleeper {
    Step step = Step::look;
    std::uint32_t seen = 0;
    std::uint32_t registration = 0;  ///< how often registrations had been taken
    std::uint32_t target = 1;
    bool rung = false;
  };

  const Sleeper& sleeper(int i) const { return sleepers_[static_cast<std::size_t>(i)]; }

  /// All sleepers on the futex share one.
  std::uint32_t bit(int i) const { return rules_->bed == Bed::futex ? 1 : 1U << i; }

  // The buffer holds consecutive values, so a count describes it.
  void flush_one() {
    ++value_;
    --buffered_;
  }
  void flush_all() {
    value_ += buffered_;
    buffered_ = 0;
  }

  /// Steps of a post: store, look for sleepers, take them out, wake them.
  bool post() {
    if (poster_.done == rules_->posts) {
      return false;
    }
    const std::uint32_t store = rules_->posts_first ? 0 : 1;
    if (poster_.step == store) {
      ++buffered_;
      if (rules_->mode == PublishMode::exchange && rules_->exchange) {
        flush_all();
      }
      poster_.step += rules_->posts_first ? 1 : 2;
      poster_.step = !rules_->posts_first && poster_.taken == 0 ? 4 : poster_.step;
    } else if (poster_.step == 1 - store) {
      // Without posts_first: what is seen here decides, whatever comes before the store.
      poster_.taken = registered_;
      poster_.step = rules_->posts_first ? (registered_ != 0 ? 2 : 4) : 1;
    } else if (poster_.step == 2) {
      flush_all();  // a read-modify-write
      poster_.taken = registered_;
      registered_ = rules_->takes_before ? 0 : registered_;
      ++takings_;
      poster_.step = 3;
    } else if (poster_.step == 3) {
      wake();
      poster_.step = rules_->takes_before ? 4 : 5;
    } else if (poster_.step == 5) {
      registered_ = 0;
      poster_.step = 4;
    }
    if (poster_.step == 4) {
      poster_ = {.done = poster_.done + 1};
    }
    return true;
  }

  void wake() {
    flush_all();  // a system call
    for (int i = 0; i < rules_->sleepers; ++i) {
      Sleeper& each = sleepers_[static_cast<std::size_t>(i)];
      if ((poster_.taken & bit(i)) == 0) {
        continue;
      }
      if (each.step == Step::asleep) {
        each.step = Step::look;
      } else if (rules_->bed == Bed::bell) {
        each.rung = true;
      }
    }
  }

  bool sleep(int i) {
    Sleeper& me = sleepers_[static_cast<std::size_t>(i)];
    switch (me.step) {
      case Step::look:
        look(me, Step::enlist);
        return true;
      case Step::enlist:
        me.step = rules_->keeps_registration && (registered_ & bit(i)) != 0 ? Step::look_again
                                                                            : Step::barrier;
        registered_ |= bit(i);
        me.registration = takings_;
        me.step = me.step == Step::barrier && rules_->mode == PublishMode::exchange
                      ? Step::look_again
                      : me.step;
        return true;
      case Step::barrier:
        if (rules_->barrier) {
          flush_all();  // on all CPUs
        }
        me.step = Step::look_again;
        return true;
      case Step::look_again:
        if (rules_->looks_again) {
          look(me, Step::lie_down);
        } else {
          me.step = Step::lie_down;
        }
        return true;
      case Step::lie_down:
        lie_down(me);
        return true;
      case Step::asleep:
      case Step::done:
        return false;
    }
    return false;
  }

  void lie_down(Sleeper& me) {
    const bool unchanged =
        rules_->tells_takings ? registered_ != 0 && takings_ == me.registration : value_ == me.seen;
    me.step = (rules_->bed == Bed::futex ? unchanged : !me.rung) ? Step::asleep : Step::look;
    me.rung = false;
  }

  /// A wait for each post in turn; `otherwise` if the present one has not come.
  void look(Sleeper& me, Step otherwise) {
    me.seen = value_;
    if (!reached(value_, me.target)) {
      me.step = otherwise;
      return;
    }
    me.target = value_ + 1;
    me.step = me.target > rules_->posts ? Step::done : Step::look;
  }

  const Rules* rules_;
  std::uint32_t value_ = 0;
  std::uint32_t registered_ = 0;
  std::uint32_t takings_ = 0;
  std::uint32_t buffered_ = 0;  ///< stores of the value that nobody else sees yet
  Poster poster_{};
  std::array<Sleeper, 2> sleepers_{};
  std::string violation_{};
};

std::string run(const Rules& rules) { return explore(PublishModel(rules)).violation; }

constexpr std::array kModes{PublishMode::asymmetric, PublishMode::exchange};

TEST(PublishModel, TheBellLosesNoWakeUpInAnyOrder) {
  for (const PublishMode mode : kModes) {
    for (const int sleepers : {1, 2}) {
      for (const bool keeps : {false, true}) {
        EXPECT_EQ(run({.mode = mode,
                       .bed = Bed::bell,
                       .sleepers = sleepers,
                       .posts = 3,
                       .keeps_registration = keeps}),
                  "")
            << (mode == PublishMode::exchange ? "exchange" : "asymmetric") << ", " << sleepers
            << " sleepers";
      }
    }
  }
}

TEST(PublishModel, TheFutexLosesNoWakeUpInAnyOrder) {
  for (const PublishMode mode : kModes) {
    for (const int sleepers : {1, 2}) {
      EXPECT_EQ(run({.mode = mode, .sleepers = sleepers, .posts = 3}), "");
    }
  }
}

// A sleeper that has seen a post already may register while that post still looks for sleepers. It
// takes the registration and wakes nobody, and the next post finds none.
TEST(PublishModelFinds, ASleeperThatAsksOnlyWhetherTheValueChanged) {
  for (const PublishMode mode : kModes) {
    EXPECT_EQ(run({.mode = mode, .posts = 2, .tells_takings = false}), "deadlock");
  }
}

TEST(PublishModelFinds, ASleeperWithoutTheBarrier) {
  for (const Bed bed : {Bed::futex, Bed::bell}) {
    EXPECT_EQ(run({.bed = bed, .posts = 1, .barrier = false}), "deadlock");
  }
}

TEST(PublishModelFinds, APlainStoreWhereAnExchangeIsDue) {
  for (const Bed bed : {Bed::futex, Bed::bell}) {
    EXPECT_EQ(run({.mode = PublishMode::exchange, .bed = bed, .posts = 1, .exchange = false}),
              "deadlock");
  }
}

TEST(PublishModelFinds, ASleeperThatDoesNotLookAgain) {
  for (const PublishMode mode : {PublishMode::asymmetric, PublishMode::exchange}) {
    EXPECT_EQ(run({.mode = mode, .bed = Bed::bell, .looks_again = false}), "deadlock");
  }
}

TEST(PublishModelFinds, APosterThatLooksForSleepersBeforeItPosts) {
  for (const PublishMode mode : {PublishMode::asymmetric, PublishMode::exchange}) {
    EXPECT_EQ(run({.mode = mode, .bed = Bed::bell, .posts_first = false}), "deadlock");
  }
}

TEST(PublishModelFinds, RegistrationsTakenOutAfterTheWaking) {
  EXPECT_EQ(
      run({.mode = PublishMode::exchange, .bed = Bed::bell, .posts = 3, .takes_before = false}),
      "deadlock");
}

}  // namespace
}  // namespace tutti::model
