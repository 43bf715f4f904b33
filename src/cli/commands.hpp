// The subcommands of `tutti`. To add one: write src/cli/<name>.cpp with its configure function,
// declare it here and give it a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::cli {

/// What a chosen subcommand does; returns the exit status of the process. `program` is empty unless
/// the command takes one. Exceptions derived from std::exception become a message on standard error
/// and exit status 1, 2 for InvalidArgument and Unsupported.
using Body = std::function<int(std::span<const std::string> program)>;

/// A row of the table.
struct Command {
  std::string_view name{};
  std::string_view summary{};
  Body (*configure)(CLI::App& app) = nullptr;  ///< adds the options, returns what to run
  /// From the first word that is no option, or from "--", everything is a program and its
  /// arguments, which are not parsed. All other options of such a command take one value.
  bool takes_program = false;
};

Body configure_bench(CLI::App& app);
Body configure_info(CLI::App& app);
Body configure_run(CLI::App& app);

}  // namespace tutti::cli
