// Runs the real `tutti` command to its end and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace tutti::test {

struct Outcome {
  int status = -1;  ///< as a shell gives it; -1: it did not end in time and was killed
  std::string output{};
  std::string error{};

  /// Lines of the output.
  std::vector<std::string> lines() const;
};

/// `arguments` follow "tutti". Variables that a launcher would set are taken out of the
/// environment.
Outcome run_tutti(const std::vector<std::string>& arguments);

/// Fields of a line of CSV.
std::vector<std::string> fields(const std::string& line);

}  // namespace tutti::test
