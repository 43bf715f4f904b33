// The command `tutti`: finds the subcommand, turns errors into a line and an exit status.
#include "cli/commands.hpp"

#include <tutti/error.hpp>
#include <tutti/version.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace tutti::cli {
namespace {

constexpr int kUsageError = 2;

constexpr std::array kCommands{
    Command{.name = "run",
            .summary = "start N ranks of a program on this host and supervise them",
            .configure = configure_run},
};

// CLI11's own exit codes are above 100; scripts expect 2 for a usage error.
int usage(const CLI::App& app, const CLI::ParseError& error) {
  return app.exit(error) == 0 ? 0 : kUsageError;
}

int run_body(const std::string& name, const Body& body) {
  try {
    return body();
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

int main(int argc, char** argv) {
  CLI::App app("tutti: collective communication between the processes of a job", "tutti");
  app.set_version_flag("--version", fmt::format("tutti {}", kVersion));
  app.require_subcommand(1);
  std::vector<Body> bodies;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    bodies.push_back(command.configure(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    const std::string name(kCommands[i].name);
    if (app.got_subcommand(name)) {
      return run_body(name, bodies[i]);
    }
  }
  return kUsageError;
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) { return tutti::cli::main(argc, argv); }
