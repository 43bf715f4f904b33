// One suite for all stores: what every Store must do, whatever carries it.
#include "net/socket.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Keys = std::vector<std::string>;

/// A pause, so that another thread is most likely waiting by now; no test depends on it.
void brief_pause() { pause_for(milliseconds(20), Deadline::after(seconds(1))); }

template <class Exception, class Call>
std::string text_of(Call call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return {};
}

/// A store and further handles on its data, as different clients would have them.
class StoreConformance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    kind_ = GetParam();
    const std::size_t prefixed = kind_.rfind("Prefix", 0) == 0 ? 6 : 0;
    prefix_ = prefixed > 0;
    kind_.erase(0, prefixed);
    if (kind_ == "Hash") {
      hash_ = make_hash_store();
    } else if (kind_ == "File") {
      path_ = testing::TempDir() + "tutti-conformance-" + std::to_string(::getpid()) + "-" +
              std::to_string(counter_++);
    }
    store_ = client();
    store_->set_timeout(seconds(20));
  }

  std::shared_ptr<Store> client() {
    std::shared_ptr<Store> bare = bare_client();
    bare->set_timeout(seconds(20));
    return prefix_ ? make_prefix_store("group/one", bare) : bare;
  }

  Store& store() { return *store_; }

 private:
  std::shared_ptr<Store> bare_client() {
    if (kind_ == "Hash") {
      return hash_->clone();
    }
    if (kind_ == "File") {
      return make_file_store(path_);
    }
    if (port_ != 0) {
      return TCPStore::open({.port = port_});
    }
    auto server = TCPStore::open({.is_server = true});  // the first handle, before any thread
    port_ = server->port();
    return server;
  }

  static inline int counter_ = 0;
  std::string kind_{};
  bool prefix_ = false;
  std::shared_ptr<Store> hash_{};
  std::string path_{};
  std::uint16_t port_ = 0;
  std::shared_ptr<Store> store_{};
};

TEST_P(StoreConformance, GetReturnsWhatWasSetEvenZeroBytesAndNothing) {
  const std::string binary("a\0b\xff\n", 5);
  store().set("binary", binary);
  store().set("empty", "");
  EXPECT_EQ(store().get("binary"), binary);
  EXPECT_EQ(store().get("empty"), "");
  store().set("binary", "new");
  EXPECT_EQ(client()->get("binary"), "new");
}

TEST_P(StoreConformance, KeysAreAnyText) {
  for (const std::string key : {"", "a/b/c", "schl\xc3\xbcssel", "with space\n"}) {
    store().set(key, "v" + key);
    EXPECT_EQ(store().get(key), "v" + key);
  }
}

TEST_P(StoreConformance, GetWaitsForAnotherClientsSet) {
  const auto other = client();
  auto got = std::async(std::launch::async, [&] { return store().get("late"); });
  brief_pause();
  other->set("late", "value");
  EXPECT_EQ(got.get(), "value");
}

TEST_P(StoreConformance, OneHandleServesAWaitingAndASettingThread) {
  auto got = std::async(std::launch::async, [&] { return store().get("late"); });
  brief_pause();
  store().set("late", "value");
  EXPECT_EQ(got.get(), "value");
}

TEST_P(StoreConformance, GetTimesOutNamingTheKey) {
  const auto impatient = client();
  impatient->set_timeout(milliseconds(60));
  const auto start = std::chrono::steady_clock::now();
  const std::string text = text_of<Timeout>([&] { (void)impatient->get("absent"); });
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, milliseconds(55));
  EXPECT_LT(took, seconds(2));
  EXPECT_THAT(text, AllOf(HasSubstr("absent"), HasSubstr("0.1 s")));
}

TEST_P(StoreConformance, FC_G1_WaitReturnsWhenSomeKeysExistedBefore) {
  const auto other = client();
  store().set("1", "a");
  auto waited = std::async(std::launch::async, [&] { store().wait(Keys{"1", "2"}, seconds(20)); });
  brief_pause();
  other->set("2", "b");
  waited.get();
}

TEST_P(StoreConformance, WaitNamesOnlyTheMissingKeys) {
  store().set("here", "");
  const std::string text = text_of<Timeout>([&] {
    store().wait(Keys{"gone1", "here", "gone2"}, milliseconds(30));
  });
  EXPECT_THAT(text, AllOf(HasSubstr("gone1"), HasSubstr("gone2"), testing::Not(HasSubstr("here"))));
  EXPECT_THROW(store().wait(Keys{"gone"}, milliseconds(0)), Timeout);
  EXPECT_THROW(store().wait(Keys{"gone"}, milliseconds(-5)), Timeout);
  store().wait(Keys{}, milliseconds(0));
}

TEST_P(StoreConformance, WaitAcceptsAnEndlessTimeout) {
  auto waited =
      std::async(std::launch::async, [&] { store().wait(Keys{"k"}, Store::Millis::max()); });
  brief_pause();
  store().set("k", "");
  waited.get();
}

TEST_P(StoreConformance, WaitSeesKeysInAnyOrderAndAfterDeletion) {
  const auto other = client();
  other->set("c", "");
  auto waited = std::async(std::launch::async, [&] {
    store().wait(Keys{"a", "b", "c"}, seconds(20));
  });
  brief_pause();
  other->set("a", "");
  EXPECT_TRUE(other->delete_key("c"));
  other->set("b", "");
  EXPECT_EQ(waited.wait_for(milliseconds(20)), std::future_status::timeout);
  other->set("c", "");
  waited.get();
}

TEST_P(StoreConformance, AddCountsFromZeroAndStoresText) {
  EXPECT_EQ(store().add("n", 5), 5);
  EXPECT_EQ(store().add("n", -7), -2);
  EXPECT_EQ(store().get("n"), "-2");
  EXPECT_EQ(store().add("n", 0), -2);
  store().set("n", "40");
  EXPECT_EQ(store().add("n", 2), 42);
}

TEST_P(StoreConformance, AddRefusesTextAndOverflow) {
  store().set("word", "abc");
  EXPECT_THAT(text_of<InvalidArgument>([&] { (void)store().add("word", 1); }), HasSubstr("word"));
  EXPECT_EQ(store().get("word"), "abc");
  EXPECT_EQ(store().add("big", std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW((void)store().add("big", 1), InvalidArgument);
}

TEST_P(StoreConformance, AddIsAtomicAndUniqueAmongThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::vector<std::int64_t>> seen(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([this, &mine] {
      const auto own = client();
      for (int i = 0; i < kEach; ++i) {
        mine.push_back(own->add("n", 1));
      }
    });
  }
  std::set<std::int64_t> all;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    all.insert(seen[i].begin(), seen[i].end());
  }
  EXPECT_EQ(all.size(), std::size_t{kThreads} * kEach);
  EXPECT_EQ(*all.rbegin(), kThreads * kEach);
}

TEST_P(StoreConformance, CompareSetFollowsItsFourCases) {
  EXPECT_EQ(store().compare_set("k", "something", "new"), "something");  // absent, not equal
  EXPECT_FALSE(store().check(Keys{"k"}));
  EXPECT_EQ(store().compare_set("k", "", "first"), "first");  // absent counts as empty
  EXPECT_EQ(store().compare_set("k", "other", "second"), "first");
  EXPECT_EQ(store().get("k"), "first");
  EXPECT_EQ(store().compare_set("k", "first", "second"), "second");
  EXPECT_EQ(store().get("k"), "second");
  store().set("empty", "");
  EXPECT_EQ(store().compare_set("empty", "", "full"), "full");
}

TEST_P(StoreConformance, CompareSetLetsOneOfManyWin) {
  std::atomic<int> winners{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i, &winners] {
      const std::string mine = "thread " + std::to_string(i);
      if (client()->compare_set("leader", "", mine) == mine) {
        winners.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(winners.load(), 1);
}

TEST_P(StoreConformance, CompareSetWakesAWaiter) {
  auto got = std::async(std::launch::async, [&] { return store().get("k"); });
  brief_pause();
  EXPECT_EQ(store().compare_set("k", "", "v"), "v");
  EXPECT_EQ(got.get(), "v");
}

TEST_P(StoreConformance, CheckNeedsAllKeys) {
  store().set("a", "1");
  EXPECT_TRUE(store().check(Keys{"a"}));
  EXPECT_FALSE(store().check(Keys{"a", "b"}));
  EXPECT_TRUE(store().check(Keys{}));
}

TEST_P(StoreConformance, DeleteTellsWhetherTheKeyWasThere) {
  store().set("a", "1");
  EXPECT_TRUE(store().delete_key("a"));
  EXPECT_FALSE(store().delete_key("a"));
  EXPECT_FALSE(store().check(Keys{"a"}));
  EXPECT_EQ(store().add("a", 1), 1);
}

TEST_P(StoreConformance, CountsAndListsPlainValuesOnly) {
  store().set("b/2", "");
  store().set("a", "");
  store().add("b/1", 1);
  store().queue_push("queue", "x");
  EXPECT_EQ(store().num_keys(), 3);
  EXPECT_THAT(store().list_keys(), ElementsAre("a", "b/1", "b/2"));
  EXPECT_THAT(store().list_keys("b/"), ElementsAre("b/1", "b/2"));
  EXPECT_THAT(store().list_keys("c"), IsEmpty());
}

TEST_P(StoreConformance, InternalKeysStayHidden) {
  store().barrier("sync", 1, seconds(5));
  EXPECT_EQ(store().num_keys(), 0);
  EXPECT_THAT(store().list_keys(), IsEmpty());
}

TEST_P(StoreConformance, AppendGrowsAValueAndWakesAWaiter) {
  auto got = std::async(std::launch::async, [&] { return store().get("log"); });
  brief_pause();
  store().append("log", "one,");
  EXPECT_EQ(got.get(), "one,");
  store().append("log", "two");
  EXPECT_EQ(store().get("log"), "one,two");
}

TEST_P(StoreConformance, AppendFromThreadsLosesNothing) {
  std::vector<std::thread> threads;
  for (const char* word : {"aaaa", "bbbb", "cccc", "dddd"}) {
    threads.emplace_back([this, word] {
      const auto own = client();
      for (int i = 0; i < 20; ++i) {
        own->append("log", word);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string log = store().get("log");
  ASSERT_EQ(log.size(), 4U * 20U * 4U);
  for (std::size_t at = 0; at < log.size(); at += 4) {
    EXPECT_EQ(log.substr(at, 4), std::string(4, log[at]));
  }
}

TEST_P(StoreConformance, MultiSetAndMultiGetKeepTheOrder) {
  store().multi_set(Keys{"a", "b", "c"}, Keys{"1", "2", "3"});
  EXPECT_THAT(store().multi_get(Keys{"c", "a", "b", "a"}), ElementsAre("3", "1", "2", "1"));
  EXPECT_THAT(store().multi_get(Keys{}), IsEmpty());
  EXPECT_THAT(text_of<InvalidArgument>([&] { store().multi_set(Keys{"a"}, Keys{}); }),
              AllOf(HasSubstr("1 keys"), HasSubstr("0 values")));
}

TEST_P(StoreConformance, MultiGetWaitsForAllKeys) {
  const auto other = client();
  auto got = std::async(std::launch::async, [&] { return store().multi_get(Keys{"a", "b"}); });
  brief_pause();
  other->set("b", "2");
  other->set("a", "1");
  EXPECT_THAT(got.get(), ElementsAre("1", "2"));
}

TEST_P(StoreConformance, QueuesAreFirstInFirstOutAndApartFromValues) {
  EXPECT_EQ(store().queue_len("q"), 0);
  store().queue_push("q", "first");
  store().queue_push("q", "");
  EXPECT_EQ(store().queue_len("q"), 2);
  EXPECT_FALSE(store().check(Keys{"q"}));
  store().set("q", "value");
  EXPECT_EQ(client()->queue_pop("q"), "first");
  EXPECT_EQ(store().queue_pop("q"), "");
  EXPECT_EQ(store().queue_len("q"), 0);
  EXPECT_EQ(store().get("q"), "value");
}

TEST_P(StoreConformance, QueuePopWaitsAndTimesOutNamingTheQueue) {
  const auto other = client();
  auto got = std::async(std::launch::async, [&] { return store().queue_pop("q"); });
  brief_pause();
  other->queue_push("q", "x");
  EXPECT_EQ(got.get(), "x");
  other->set_timeout(milliseconds(30));
  EXPECT_THAT(text_of<Timeout>([&] { (void)other->queue_pop("q"); }), HasSubstr("q"));
}

TEST_P(StoreConformance, EachQueueElementGoesToOneConsumer) {
  constexpr int kElements = 60;
  std::vector<std::vector<std::string>> taken(3);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([this, &mine] {
      const auto own = client();
      for (std::string got = own->queue_pop("q"); got != "stop"; got = own->queue_pop("q")) {
        mine.push_back(got);
      }
    });
  }
  for (int i = 0; i < kElements; ++i) {
    store().queue_push("q", std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) {
    store().queue_push("q", "stop");
  }
  std::set<std::string> all;
  std::size_t total = 0;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    all.insert(taken[i].begin(), taken[i].end());
    total += taken[i].size();
    EXPECT_TRUE(std::is_sorted(taken[i].begin(), taken[i].end(), [](const auto& a, const auto& b) {
      return std::stoi(a) < std::stoi(b);
    }));
  }
  EXPECT_EQ(all.size(), std::size_t{kElements});
  EXPECT_EQ(total, std::size_t{kElements});
}

TEST_P(StoreConformance, BarrierHoldsUntilTheLastAndCanBeUsedAgain) {
  constexpr int kWorkers = 4;
  constexpr int kRounds = 5;
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([this, &arrived] {
      const auto own = client();
      for (int round = 1; round <= kRounds; ++round) {
        arrived.fetch_add(1);
        own->barrier("round", kWorkers, seconds(20));
        EXPECT_GE(arrived.load(), round * kWorkers);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_P(StoreConformance, BarrierTellsHowManyJoinedAndForgetsWhoGaveUp) {
  EXPECT_THAT(text_of<Timeout>([&] { store().barrier("b", 3, milliseconds(40)); }),
              AllOf(HasSubstr("1 of 3"), HasSubstr("b")));
  EXPECT_THAT(text_of<Timeout>([&] { store().barrier("b", 2, milliseconds(40)); }),
              HasSubstr("1 of 2"));
}

TEST_P(StoreConformance, BarrierRefusesDifferentWorldSizes) {
  const auto other = client();
  auto first = std::async(std::launch::async, [&] { store().barrier("b", 2, seconds(20)); });
  brief_pause();
  bool refused = false;
  while (!refused) {  // until the first has arrived, this one is the first
    try {
      other->barrier("b", 3, milliseconds(1));
    } catch (const Timeout&) {
      continue;
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("2"), HasSubstr("3")));
      refused = true;
    }
    other->barrier("b", 2, seconds(20));
  }
  first.get();
  EXPECT_THROW(store().barrier("b", 0, seconds(1)), InvalidArgument);
}

TEST_P(StoreConformance, CloneSeesTheSameDataWithItsOwnTimeout) {
  const auto other = store().clone();
  store().set("k", "v");
  EXPECT_EQ(other->get("k"), "v");
  other->set_timeout(milliseconds(10));
  EXPECT_EQ(other->timeout(), milliseconds(10));
  EXPECT_EQ(store().timeout(), seconds(20));
}

TEST_P(StoreConformance, LimitsAreStatedNotSilent) {
  EXPECT_THAT(text_of<InvalidArgument>([&] { store().set(std::string(5000, 'k'), "v"); }),
              AllOf(HasSubstr("4096"), HasSubstr("bytes")));
  EXPECT_THROW(store().set_timeout(milliseconds(0)), InvalidArgument);
  EXPECT_TRUE(store().has_extended_api());
  EXPECT_FALSE(store().describe().empty());
}

TEST_P(StoreConformance, CarriesLargeValues) {
  std::string large(std::size_t{5} << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) {
    large[i] = static_cast<char>(i * 31 + i / 997);
  }
  store().set("large", large);
  EXPECT_TRUE(client()->get("large") == large);
  EXPECT_TRUE(store().multi_get(Keys{"large", "large"})[1] == large);
  store().append("large", "x");
  EXPECT_EQ(store().get("large").size(), large.size() + 1);
}

TEST_P(StoreConformance, ManyThreadsMixOperationsOnSharedHandles) {
  const auto shared = client();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([this, t, &shared] {
      Store& mine = t % 2 == 0 ? *shared : store();
      for (int i = 0; i < 15; ++i) {
        const std::string step = std::to_string(i) + "/";
        mine.set(step + std::to_string(t), std::to_string(t));
        EXPECT_EQ(mine.get(step + std::to_string((t + 1) % 6)), std::to_string((t + 1) % 6));
        mine.add("total", 1);
      }
      mine.barrier("end", 6, seconds(20));
      EXPECT_EQ(mine.get("total"), "90");
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreConformance,
                         testing::Values("Hash", "File", "Tcp", "PrefixHash", "PrefixFile",
                                         "PrefixTcp"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tutti
