// The command `tutti`: finds the subcommand, turns errors into a line and an exit status.
#include "cli/commands.hpp"

#include <tutti/error.hpp>
#include <tutti/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::cli {
namespace {

constexpr int kUsageError = 2;

constexpr std::array kCommands{
    Command{.name = "run",
            .summary = "start N ranks of a program on this host and supervise them",
            .configure = configure_run,
            .takes_program = true},
    Command{.name = "bench",
            .summary = "measure the collectives on ranks of this host, or of the job it joins",
            .configure = configure_bench},
    Command{.name = "info",
            .summary = "what this build and this host offer, and what the library would choose",
            .configure = configure_info},
};

// CLI11's own exit codes are above 100; scripts expect 2 for a usage error.
int usage(const CLI::App& app, const CLI::ParseError& error) {
  return app.exit(error) == 0 ? 0 : kUsageError;
}

// Cuts the program and its arguments off `words`, which begin after the subcommand. CLI11 could
// collect them, but would take "[a,b]" apart and does not know "--" in a subcommand.
std::vector<std::string> cut_program(std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    const std::string& word = words[at];
    const bool is_long = word.starts_with("--");
    const bool has_value = is_long ? word.find('=') != std::string::npos : word.size() > 2;
    const bool is_help = word == "-h" || word == "--help";
    at += has_value || is_help ? 1 : 2;
  }
  at = std::min(at, words.size());
  const bool marked = at < words.size() && words[at] == "--";
  const auto begin = words.begin() + static_cast<std::ptrdiff_t>(at);
  std::vector<std::string> program(begin + (marked ? 1 : 0), words.end());
  words.erase(begin, words.end());
  return program;
}

int run_body(const std::string& name, const Body& body, std::span<const std::string> program) {
  try {
    return body(program);
  } catch (const InvalidArgument& error) {
    fmt::print(stderr, "tutti {}: {}\n", name, error.what());
    return kUsageError;
  } catch (const Unsupported& error) {
    fmt::print(stderr, "tutti {}: not supported: {}\n", name, error.what());
    return kUsageError;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti {}: {}\n", name, error.what());
    return 1;
  }
}

const Command* find_command(std::string_view name) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == kCommands.end() ? nullptr : &*found;
}

int main(std::vector<std::string> words) {
  CLI::App app("tutti: collective communication between the processes of a job", "tutti");
  app.set_version_flag("--version", fmt::format("tutti {}", kVersion));
  app.require_subcommand(1);
  std::vector<Body> bodies;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    bodies.push_back(command.configure(*sub));
  }
  const Command* chosen = words.empty() ? nullptr : find_command(words.front());
  std::vector<std::string> program;
  if (chosen != nullptr && chosen->takes_program) {
    std::vector<std::string> rest(words.begin() + 1, words.end());
    program = cut_program(rest);
    words.resize(1);
    words.insert(words.end(), rest.begin(), rest.end());
  }
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    const std::string name(kCommands[i].name);
    if (app.got_subcommand(name)) {
      return run_body(name, bodies[i], program);
    }
  }
  return kUsageError;
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  return tutti::cli::main(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}
