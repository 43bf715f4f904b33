#include "net/fork_guard.hpp"

#include "net/socket.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <chrono>

namespace tutti {
namespace {

TEST(ForkGuard, AForkedChildDoesNotKeepTheConnectionOpen) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  UniqueFd ours(fds[0]);
  ForkGuard guard(ours.get());
  const UniqueFd theirs(fds[1]);
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  UniqueFd go_read(go[0]);
  UniqueFd go_write(go[1]);

  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go_write.get());
    char byte = 0;
    (void)!::read(go_read.get(), &byte, 1);  // lives until the parent is done
    ::_exit(::send(ours.get(), "x", 1, MSG_NOSIGNAL) < 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  guard = ForkGuard();
  ours.reset();  // the last end of the connection, if the child let go
  EXPECT_TRUE(wait_for_fd(theirs.get(), POLLIN, Deadline::after(std::chrono::seconds(10))));
  char byte = 0;
  EXPECT_EQ(::recv(theirs.get(), &byte, 1, MSG_DONTWAIT), 0);
  go_write.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ForkGuard, LeavesUnguardedDescriptorsAlone) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::pipe(fds.data()), 0);
  const UniqueFd read_end(fds[0]);
  const UniqueFd write_end(fds[1]);
  { const ForkGuard brief(write_end.get()); }
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::write(write_end.get(), "x", 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace tutti
