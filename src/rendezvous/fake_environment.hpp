// An environment for tests.
#pragma once

#include "rendezvous/environment.hpp"

#include <map>
#include <string>
#include <utility>

namespace tutti {

inline EnvLookup fake_environment(std::map<std::string, std::string, std::less<>> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt
                                                             : std::optional(found->second);
  };
}

/// The text of the `Exception` that `call` throws; "" if it throws none.
template <typename Exception, typename Call>
std::string text_of(Call&& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace tutti
