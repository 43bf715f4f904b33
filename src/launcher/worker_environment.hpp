// The environment that `tutti run` gives to a rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::launcher {

/// What all ranks of a job are told.
struct JobFacts {
  int ranks = 0;
  std::uint16_t port = 0;
  std::string secret_file{};
  std::string job_id{};
};

/// `inherited` ("NAME=value" each) without what another launcher or job left there, plus what
/// docs/environment.md promises. OMP_NUM_THREADS=1 if there are several ranks and
/// PYTHONUNBUFFERED=1 (lines of Python programs show at once) are only defaults.
std::vector<std::string> worker_environment(std::span<const std::string> inherited,
                                            const JobFacts& job, int rank);

/// This process's environment.
std::vector<std::string> inherited_environment();

}  // namespace tutti::launcher
