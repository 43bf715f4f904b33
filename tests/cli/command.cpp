#include "cli/command.hpp"

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "harness/pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace tutti::test {
namespace {

constexpr std::chrono::seconds kPatience{150};

using testing::make_pipe;
using testing::Pipe;

[[noreturn]] void become_tutti(std::vector<std::string> words, int output, int error) {
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  for (const char* name : {"RANK", "WORLD_SIZE", "TUTTI_TRANSPORT", "TUTTI_ALGORITHM"}) {
    ::unsetenv(name);
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(99);
}

// Takes what has come; closes the end at the end of file.
void take(UniqueFd& end, std::string& text) {
  std::array<char, 65536> chunk{};
  const ssize_t count = ::read(end.get(), chunk.data(), chunk.size());
  if (count > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(count));
  } else {
    end.reset();
  }
}

// Both outputs to their end, or the deadline; false then.
bool read_all(UniqueFd& output, UniqueFd& error, Outcome& outcome) {
  const Deadline deadline = Deadline::after(kPatience);
  while (output.valid() || error.valid()) {
    std::array<pollfd, 2> ends{{{.fd = output.get(), .events = POLLIN, .revents = 0},
                                {.fd = error.get(), .events = POLLIN, .revents = 0}}};
    const int left_ms = deadline.left_ms(std::chrono::steady_clock::now(), 1'000'000);
    if (::poll(ends.data(), ends.size(), left_ms) <= 0) {
      return false;
    }
    if (ends[0].revents != 0) {
      take(output, outcome.output);
    }
    if (ends[1].revents != 0) {
      take(error, outcome.error);
    }
  }
  return true;
}

}  // namespace

Outcome run_tutti(const std::vector<std::string>& arguments) {
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  std::vector<std::string> words{TUTTI_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t pid = ::fork();
  if (pid == 0) {
    become_tutti(words, output.write_end.get(), error.write_end.get());
  }
  output.write_end.reset();
  error.write_end.reset();
  Outcome outcome;
  const bool ended = read_all(output.read_end, error.read_end, outcome);
  if (!ended) {
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);  // it has closed its outputs, or was killed
  if (ended) {
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return outcome;
}

std::vector<std::string> Outcome::lines() const {
  std::vector<std::string> result;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    result.push_back(line);
  }
  return result;
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    result.push_back(field);
  }
  return result;
}

}  // namespace tutti::test
