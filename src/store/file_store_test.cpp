// What only the file store does: creation races, reference counts, left-over and damaged files.
#include "net/socket.hpp"
#include "store/process_mark.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace tutti {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

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

class FileStoreTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove(path_); }
  void TearDown() override { fs::remove(path_); }

  /// Runs `body` in a child process; its result is the exit status.
  static pid_t fork_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 99;
      try {
        status = body();
      } catch (const std::exception& error) {
        (void)!::write(STDERR_FILENO, error.what(), std::string_view(error.what()).size());
      }
      ::_exit(status);
    }
    return child;
  }
  static int exit_status(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// A run that joins the file, sets a key and is killed.
  void leave_a_killed_run(int world_size) {
    const pid_t child = fork_child([this, world_size] {
      const auto store = make_file_store(path_, world_size);
      store->set("yesterday", "old");
      ::raise(SIGKILL);
      return 0;
    });
    EXPECT_EQ(exit_status(child), 128 + SIGKILL);
  }

  const std::string path_ = testing::TempDir() + "tutti-file-store-" + std::to_string(::getpid());
};

TEST_F(FileStoreTest, FC_G3_EightProcessesCreateOneFileTogether) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork_child([this] {
      const auto store = make_file_store(path_, 8);
      store->set_timeout(seconds(30));
      store->add("n", 1);
      store->barrier("all", 8, seconds(30));
      return store->add("n", 0) == 8 ? 0 : 1;
    }));
  }
  for (const pid_t child : children) {
    EXPECT_EQ(exit_status(child), 0);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, FC_G3_TheFileLivesUntilItsLastUserLeaves) {
  auto first = make_file_store(path_);
  auto second = make_file_store(path_);
  first->set("k", "v");
  first.reset();
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_EQ(second->get("k"), "v");
  second.reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, FC_G3_ALeftOverOfAKilledRunIsRefused) {
  for (const int world_size : {1, 2, -1}) {
    fs::remove(path_);
    leave_a_killed_run(world_size);
    EXPECT_THAT(text_of<StoreError>([&] { (void)make_file_store(path_, world_size); }),
                AllOf(HasSubstr(path_), HasSubstr("remove")));
  }
  fs::remove(path_);
  EXPECT_EQ(make_file_store(path_, 2)->num_keys(), 0);
}

TEST_F(FileStoreTest, FC_G3_MoreUsersThanTheWorldSizeAreRefused) {
  const auto first = make_file_store(path_, 2);
  const auto second = make_file_store(path_, 2);
  EXPECT_THAT(text_of<StoreError>([&] { (void)make_file_store(path_, 2); }),
              AllOf(HasSubstr("world size is 2"), HasSubstr("remove")));
  second->set("k", "v");  // those who were in are not disturbed
  EXPECT_EQ(first->get("k"), "v");
}

TEST_F(FileStoreTest, WithAKnownWorldSizeTheFileWaitsForLateUsers) {
  make_file_store(path_, 2)->set("k", "v");
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_EQ(make_file_store(path_, 2)->get("k"), "v");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, AFileOfAnotherJobIsRefused) {
  ::setenv("TUTTI_SECRET", "job one", 1);
  const auto store = make_file_store(path_, 2);
  ::setenv("TUTTI_SECRET", "job two", 1);
  EXPECT_THAT(text_of<StoreError>([&] { (void)make_file_store(path_, 2); }),
              HasSubstr("another job"));
  ::unsetenv("TUTTI_SECRET");
  EXPECT_THROW((void)make_file_store(path_, 2), StoreError);
}

TEST_F(FileStoreTest, AHalfWrittenRecordAtTheEndIsIgnoredThenCutOff) {
  const auto first = make_file_store(path_);
  first->set("k", "v");
  const auto once = fs::file_size(path_);
  first->set("k", "v");
  const auto whole = fs::file_size(path_);
  const auto record = whole - once;
  const std::string long_record("\x40\x00\x00\x00partial", 11);
  for (std::size_t kept = 1; kept <= long_record.size(); ++kept) {
    std::ofstream(path_, std::ios::binary | std::ios::app)
        .write(long_record.data(), static_cast<std::streamsize>(kept));
    EXPECT_EQ(first->get("k"), "v");
    EXPECT_EQ(first->num_keys(), 1);
    first->set("k", "v");  // a writer mends
    EXPECT_EQ(first->get("k"), "v");
    EXPECT_EQ(fs::file_size(path_), whole + kept * record);
  }
  const auto second = make_file_store(path_);
  EXPECT_EQ(second->get("k"), "v");
}

TEST_F(FileStoreTest, DamageInTheMiddleIsAnErrorThatTellsToRemoveTheFile) {
  const auto first = make_file_store(path_);
  const auto before = static_cast<std::streamoff>(fs::file_size(path_));
  first->set("k", "value");
  first->set("l", "value");
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(before + 12);
  file.put('\x7f');
  file.close();
  EXPECT_THAT(text_of<StoreError>([&] { (void)make_file_store(path_); }),
              AllOf(HasSubstr("damaged"), HasSubstr("remove")));
}

TEST_F(FileStoreTest, RefusesAFileThatIsNoStore) {
  std::ofstream(path_) << "my only copy of the thesis";
  EXPECT_THAT(text_of<StoreError>([&] { (void)make_file_store(path_); }), HasSubstr("no store"));
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "my only copy of the thesis");
  EXPECT_THROW((void)make_file_store(testing::TempDir()), StoreError);
  EXPECT_THROW((void)make_file_store("/nonexistent/folder/file"), StoreError);
  EXPECT_THROW((void)make_file_store(""), InvalidArgument);
  EXPECT_THROW((void)make_file_store(path_, 0), InvalidArgument);
}

TEST_F(FileStoreTest, AnEmptyFileIsANewStore) {
  { std::ofstream make(path_); }
  make_file_store(path_)->set("k", "v");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, ALockHeldByAnotherEndsAtTheTimeout) {
  const auto store = make_file_store(path_);
  store->set_timeout(milliseconds(60));
  std::FILE* other = std::fopen(path_.c_str(), "r");
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(::flock(::fileno(other), LOCK_EX), 0);
  EXPECT_THAT(text_of<Timeout>([&] { store->set("k", "v"); }), HasSubstr("holds its lock"));
  EXPECT_FALSE(store->check(std::vector<std::string>{"k"}));  // reading needs no lock
  std::fclose(other);
  store->set("k", "v");
}

TEST_F(FileStoreTest, AForkedChildMustOpenItsOwn) {
  const auto store = make_file_store(path_);
  const pid_t child = fork_child([&] {
    try {
      store->set("k", "child");
    } catch (const StoreError&) {
      make_file_store(path_)->set("k", "own");
      return 0;
    }
    return 1;
  });
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(store->get("k"), "own");
}

TEST_F(FileStoreTest, AWaitSeesWhatAnotherProcessSets) {
  const auto store = make_file_store(path_);
  store->set_timeout(seconds(30));
  const pid_t child = fork_child([this] {
    make_file_store(path_)->set("k", "v");
    return 0;
  });
  EXPECT_EQ(store->get("k"), "v");
  EXPECT_EQ(exit_status(child), 0);
}

TEST(ProcessMark, KnowsTheLivingFromTheDead) {
  const ProcessMark own = mark_of_this_process();
  EXPECT_FALSE(is_known_dead(own));
  ProcessMark reused = own;
  ++reused.start;
  EXPECT_TRUE(is_known_dead(reused));
  ProcessMark elsewhere = reused;
  elsewhere.boot = "another host";
  EXPECT_FALSE(is_known_dead(elsewhere));
}

}  // namespace
}  // namespace tutti
