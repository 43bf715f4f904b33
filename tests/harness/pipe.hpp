// A pipe that closes itself, for tests that read what a child process writes.
#pragma once

#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace tutti::testing {

struct Pipe {
  UniqueFd read_end{};
  UniqueFd write_end{};
};

inline Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2 failed");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace tutti::testing
