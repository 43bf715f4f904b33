#include "rendezvous/claim.hpp"

#include "rendezvous/fake_environment.hpp"
#include "rendezvous/process_identity.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {
namespace {

TEST(RankClaim, RefusesASecondHolderOfARank) {
  const auto store = make_hash_store();
  const RankClaim zero = claim_rank(store, {.rank = 0, .world_size = 2});
  const RankClaim one = claim_rank(store, {.rank = 1, .world_size = 2});
  EXPECT_EQ(one.incarnation(), 1);
  const std::string text =
      text_of<InvalidArgument>([&] { (void)claim_rank(store, {.rank = 1, .world_size = 2}); });
  EXPECT_NE(text.find("rank 1 of 2 is taken"), std::string::npos) << text;
  EXPECT_NE(text.find("process " + std::to_string(::getpid())), std::string::npos) << text;
}

TEST(RankClaim, RefusesAnotherWorldSize) {
  const auto store = make_hash_store();
  const RankClaim zero = claim_rank(store, {.rank = 0, .world_size = 2});
  const std::string text =
      text_of<InvalidArgument>([&] { (void)claim_rank(store, {.rank = 2, .world_size = 3}); });
  EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
  EXPECT_NE(text.find("world size 3"), std::string::npos) << text;
  EXPECT_NE(text.find("has world size 2, as rank 0 (process "), std::string::npos) << text;
}

TEST(RankClaim, RefusesAnotherJob) {
  const auto store = make_hash_store();
  const RankClaim zero = claim_rank(store, {.rank = 0, .world_size = 2, .job_id = "4711.0"});
  const std::string text = text_of<InvalidArgument>(
      [&] { (void)claim_rank(store, {.rank = 1, .world_size = 2, .job_id = "4712.0"}); });
  EXPECT_NE(text.find("job '4712.0'"), std::string::npos) << text;
  EXPECT_NE(text.find("stale"), std::string::npos) << text;
  const RankClaim unnamed = claim_rank(store, {.rank = 1, .world_size = 2});
  EXPECT_EQ(unnamed.incarnation(), 1);
}

TEST(RankClaim, CountsTheIncarnationsOfARankThatLeft) {
  const auto store = make_hash_store();
  for (int expected = 1; expected <= 3; ++expected) {
    RankClaim claim = claim_rank(store, {.rank = 0, .world_size = 1});
    EXPECT_EQ(claim.incarnation(), expected);
    const RankClaim moved = std::move(claim);
    EXPECT_EQ(moved.incarnation(), expected);
  }
}

TEST(RankClaim, TakesOverFromAProcessThatDied) {
  // The store is shared as bytes: the child tells what it would leave in it.
  ProcessIdentity dead = this_process();
  dead.pid = ::fork();
  if (dead.pid == 0) {
    ::_exit(0);
  }
  ASSERT_GT(dead.pid, 0);
  ASSERT_EQ(::waitpid(dead.pid, nullptr, 0), dead.pid);
  EXPECT_TRUE(is_known_dead(dead));
  const auto store = make_hash_store();
  store->set("tutti/rank/0", "4 in " + dead.host + " " + dead.scope + " " +
                                 std::to_string(dead.pid) + " " + dead.start_time + " token");
  EXPECT_EQ(claim_rank(store, {.rank = 0, .world_size = 1}).incarnation(), 5);
}

TEST(RankClaim, NeverTakesOverFromAnotherHost) {
  const auto store = make_hash_store();
  store->set("tutti/rank/0", "1 in hostB other-boot/1 4711 99 token");
  const std::string text =
      text_of<InvalidArgument>([&] { (void)claim_rank(store, {.rank = 0, .world_size = 1}); });
  EXPECT_NE(text.find("process 4711 on host hostB"), std::string::npos) << text;
}

TEST(RankClaim, SaysSoWhenTheStoreHoldsForeignData) {
  for (const char* text : {"x", "1 in h s -1 5 t", "0 in h s 1 5 t", "1 out h s 1 5 t"}) {
    const auto store = make_hash_store();
    store->set("tutti/rank/0", text);
    EXPECT_THROW((void)claim_rank(store, {.rank = 0, .world_size = 1}), InvalidArgument) << text;
    const auto other = make_hash_store();
    other->set("tutti/job", "nonsense");
    EXPECT_THROW((void)claim_rank(other, {.rank = 0, .world_size = 1}), InvalidArgument);
  }
}

TEST(ProcessIdentity, KnowsThatThisProcessLives) {
  const ProcessIdentity me = this_process();
  EXPECT_EQ(me.pid, ::getpid());
  EXPECT_FALSE(is_known_dead(me));
  ProcessIdentity recycled = me;
  recycled.start_time = "1";
  EXPECT_TRUE(is_known_dead(recycled));
  ProcessIdentity foreign = recycled;
  foreign.scope = "elsewhere";
  EXPECT_FALSE(is_known_dead(foreign));
}

}  // namespace
}  // namespace tutti
