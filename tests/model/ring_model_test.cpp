// The ring of ShmLink (transport/shm_link.hpp) in every order of its producer and its consumer, and
// for ever: positions are kept modulo some laps, so that all states that can come are finitely
// many. Records take one or two cache lines; what the second one begins with looks as much like a
// tag as the user's bytes can. Broken is: to take for a record what is none, to overlook one, to
// read one that was overwritten, and to wait for each other.
#include "model/explore.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace tutti::model {
namespace {

constexpr std::uint32_t kLines = 6;               ///< of the ring; a record is at most a third
constexpr std::uint32_t kPositions = 2 * kLines;  ///< then tags repeat

struct Rules {
  std::uint32_t often = kLines / 3;  ///< lines after which the consumer says how far it came
  // What a test breaks.
  std::uint32_t beyond = 0;  ///< lines that are free no more but written
  bool lap_bit = true;
  bool clears_behind = true;  ///< what could pass for a tag
  bool clears_first = true;   ///< before the tag is written
  bool tag_last = true;       ///< after the record's bytes
};

class RingModel {
 public:
  explicit RingModel(const Rules& rules) : rules_(&rules) {}

  /// 0 and 1: the producer goes on; at a new record with one line, or with two whose second begins
  /// like a tag of an even or an odd lap. 3: the consumer.
  int actions() const { return 4; }
  bool finished() const { return false; }
  const std::string& violation() const { return violation_; }

  bool act(int action) {
    if (action == 3) {
      return consume();
    }
    return step_ == 0 ? begin(action) : action == 0 && produce();
  }

  std::string key() const {
    Key key;
    key.add_all(bytes_);
    key.add_all(words_);
    key.add_all(tag_lines_);
    for (const std::uint32_t number :
         {written_, freed_, lines_, like_, step_, read_, head_, got_}) {
      key.add(static_cast<std::uint8_t>(number));
    }
    return key.take();
  }

 private:
  static constexpr std::uint8_t kNothing = 0xff;

  static std::uint32_t ahead(std::uint32_t from, std::uint32_t by) {
    return (from + by) % kPositions;
  }
  std::uint32_t lap(std::uint32_t position) const {
    return rules_->lap_bit ? position / kLines % 2 : 0;
  }
  static std::uint8_t tag(std::uint32_t lines, std::uint32_t lap) {
    return static_cast<std::uint8_t>(1 + 2 * (lines - 1) + lap);
  }
  std::uint32_t announced(std::uint32_t position) const {
    const std::uint8_t word = words_[position % kLines];
    return word == 0 || (word - 1U) % 2 != lap(position) ? 0 : (word - 1U) / 2 + 1;
  }
  void put_bytes(std::uint32_t line) {
    bytes_[ahead(written_, line) % kLines] = static_cast<std::uint8_t>(written_);
  }

  bool begin(int choice) {
    std::uint32_t used = ahead(written_, kPositions - freed_);
    if (used > kLines / 2) {
      freed_ = head_;
      used = ahead(written_, kPositions - freed_);
    }
    const std::uint32_t free = kLines + rules_->beyond - used;
    lines_ = choice == 0 ? 1 : 2;
    like_ = choice == 0 ? 0 : static_cast<std::uint32_t>(choice) - 1;
    if (free < 2 || lines_ > free - 1) {
      return false;
    }
    step_ = 1;
    return true;
  }

  /// Bytes of the first line, of the second, what lies behind, the tag.
  bool produce() {
    constexpr std::array kRight{1, 2, 3, 4};
    constexpr std::array kClearsLast{1, 2, 4, 3};
    constexpr std::array kTagFirst{3, 4, 1, 2};
    const auto& order = !rules_->tag_last ? kTagFirst : rules_->clears_first ? kRight : kClearsLast;
    switch (order[step_ - 1]) {
      case 1:
        put_bytes(0);
        break;
      case 2:
        if (lines_ == 2) {
          put_bytes(1);
          words_[ahead(written_, 1) % kLines] = tag(1, like_);
        }
        break;
      case 3:
        clear_behind();
        break;
      default:
        words_[written_ % kLines] = tag(lines_, lap(written_));
        announced_ = true;
    }
    if (++step_ == 5) {
      tag_lines_[written_ % kLines] = true;
      if (lines_ == 2) {
        tag_lines_[ahead(written_, 1) % kLines] = false;
      }
      written_ = ahead(written_, lines_);
      lines_ = like_ = step_ = 0;
      announced_ = false;
    }
    return true;
  }

  void clear_behind() {
    const std::uint32_t next = ahead(written_, lines_) % kLines;
    if (rules_->clears_behind && !tag_lines_[next]) {
      words_[next] = 0;
      bytes_[next] = kNothing;
    }
  }

  /// Looks for a tag; then reads the record and says how far it came, now and then.
  bool consume() {
    if (got_ == 0) {
      const std::uint32_t lines = announced(read_);
      const bool there = read_ != written_ || announced_;
      if (lines == 0 && there) {
        violation_ = "a record is overlooked";
      } else if (lines != 0 && !there) {
        violation_ = "what is no record is taken for one";
      }
      got_ = lines;
      return lines != 0;
    }
    for (std::uint32_t i = 0; i < got_; ++i) {
      if (bytes_[ahead(read_, i) % kLines] != read_) {
        violation_ = "a record is read that is not whole";
      }
    }
    read_ = ahead(read_, got_);
    got_ = 0;
    if (ahead(read_, kPositions - head_) >= rules_->often) {
      head_ = read_;
    }
    return true;
  }

  const Rules* rules_;
  std::array<std::uint8_t, kLines> words_{};  ///< first word of each line; 0, or like a tag
  std::array<std::uint8_t, kLines> bytes_{};  ///< of which record the rest of each line is
  std::array<bool, kLines> tag_lines_{};
  // The producer.
  std::uint32_t written_ = 0;
  std::uint32_t freed_ = 0;
  std::uint32_t lines_ = 0;
  std::uint32_t like_ = 0;
  std::uint32_t step_ = 0;
  bool announced_ = false;  ///< the tag of the record under way is there
  // The consumer.
  std::uint32_t read_ = 0;
  std::uint32_t got_ = 0;   ///< lines of the record under way
  std::uint32_t head_ = 0;  ///< posted
  std::string violation_{};
};

std::string run(const Rules& rules) { return explore(RingModel(rules)).violation; }

TEST(RingModel, HoldsInEveryOrderForEver) { EXPECT_EQ(run({}), ""); }

TEST(RingModelFinds, TagsWithoutALapBit) { EXPECT_NE(run({.lap_bit = false}), ""); }

TEST(RingModelFinds, BytesThatPassForATag) { EXPECT_NE(run({.clears_behind = false}), ""); }

TEST(RingModelFinds, APlaceClearedAfterTheTag) { EXPECT_NE(run({.clears_first = false}), ""); }

TEST(RingModelFinds, ATagBeforeItsBytes) { EXPECT_NE(run({.tag_last = false}), ""); }

TEST(RingModelFinds, ARingFilledBeyondItsEnd) { EXPECT_NE(run({.beyond = 2}), ""); }

TEST(RingModelFinds, AConsumerThatSaysTooSeldomHowFarItCame) {
  EXPECT_EQ(run({.often = kLines}), "deadlock");
}

}  // namespace
}  // namespace tutti::model
