#include "launcher/options.hpp"

#include <tutti/error.hpp>

#include <gtest/gtest.h>

namespace tutti::launcher {
namespace {

RunOptions sound() { return {.ranks = 4, .command = {"true"}}; }

TEST(RunOptions, DefaultsToTheCpusOfTheAffinityMask) {
  RunOptions options = sound();
  options.ranks = 0;
  EXPECT_EQ(checked(options).ranks, available_cpus());
  EXPECT_GE(available_cpus(), 1);
}

TEST(RunOptions, RefusesWhatNeedsSeveralHostsOrRestarts) {
  RunOptions hosts = sound();
  hosts.node_count = 2;
  EXPECT_THROW(checked(hosts), Unsupported);
  RunOptions node = sound();
  node.node_rank = 1;
  EXPECT_THROW(checked(node), Unsupported);
  RunOptions address = sound();
  address.master_address = "10.0.0.1";
  EXPECT_THROW(checked(address), Unsupported);
  RunOptions restarts = sound();
  restarts.max_restarts = 1;
  EXPECT_THROW(checked(restarts), Unsupported);
  RunOptions local = sound();
  local.master_address = "localhost";
  EXPECT_EQ(checked(local).ranks, 4);
}

TEST(RunOptions, RefusesNumbersOutOfRange) {
  RunOptions ranks = sound();
  ranks.ranks = 65537;
  EXPECT_THROW(checked(ranks), InvalidArgument);
  RunOptions port = sound();
  port.master_port = 65536;
  EXPECT_THROW(checked(port), InvalidArgument);
  RunOptions program = sound();
  program.command.clear();
  EXPECT_THROW(checked(program), InvalidArgument);
}

TEST(RankList, ReadsNumbersAndRanges) {
  using Flags = std::vector<bool>;
  EXPECT_EQ(parse_rank_list("", 3), (Flags{true, true, true}));
  EXPECT_EQ(parse_rank_list("1", 3), (Flags{false, true, false}));
  EXPECT_EQ(parse_rank_list("0,2-3", 5), (Flags{true, false, true, true, false}));
  for (const char* bad : {"3", "x", "1-", "-1", "2-1", "0-3", ",", "0,,1"}) {
    EXPECT_THROW(parse_rank_list(bad, 3), InvalidArgument) << bad;
  }
}

TEST(Prefix, FillsInItsFields) {
  const PrefixFacts facts{.host = "h", .rank = 5, .local_rank = 1, .attempt = 2};
  EXPECT_EQ(expand_prefix("[{rank}] ", facts), "[5] ");
  EXPECT_EQ(expand_prefix("{host}:{rank}/{local_rank}/{attempt}: ", facts), "h:5/1/2: ");
  EXPECT_EQ(expand_prefix("", facts), "");
  EXPECT_THROW(expand_prefix("{role}", facts), InvalidArgument);
  EXPECT_THROW(expand_prefix("{rank", facts), InvalidArgument);
}

TEST(Command, FindsProgramsAsAShellDoes) {
  EXPECT_EQ(resolve_command({"sh", "-c", "x"}).front().back(), 'h');
  EXPECT_EQ(resolve_command({"sh", "-c", "x"}).front().front(), '/');
  const auto status = [](const std::string& program) {
    try {
      resolve_command({program});
    } catch (const ProgramError& error) {
      return error.status();
    }
    return 0;
  };
  EXPECT_EQ(status("no-such-program-here"), 127);
  EXPECT_EQ(status("./no-such-program-here"), 127);
  EXPECT_EQ(status("/etc/passwd"), 126);
  EXPECT_EQ(status("/tmp/"), 126);
  EXPECT_EQ(status("./no-such-script.py"), 127);
}

}  // namespace
}  // namespace tutti::launcher
