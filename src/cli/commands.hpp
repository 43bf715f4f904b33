// The subcommands of `tutti`. To add one: write src/cli/<name>.cpp with its configure function,
// declare it here and give it a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string_view>

namespace tutti::cli {

/// What a chosen subcommand does; returns the exit status of the process. Exceptions derived from
/// std::exception become a message on standard error and exit status 1, 2 for InvalidArgument and
/// Unsupported.
using Body = std::function<int()>;

/// A row of the table.
struct Command {
  std::string_view name{};
  std::string_view summary{};
  Body (*configure)(CLI::App& app) = nullptr;  ///< adds the options, returns what to run
};

Body configure_run(CLI::App& app);

}  // namespace tutti::cli
