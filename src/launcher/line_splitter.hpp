// From the bytes of a rank to whole lines with its prefix. No I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::launcher {

class LineSplitter {
 public:
  explicit LineSplitter(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Appends the lines that `bytes` complete to `out`. A line longer than limits::kMaxLineBytes is
  /// broken into pieces, so that memory stays bounded.
  void feed(std::string_view bytes, std::string& out);
  /// Appends what is left of an unfinished last line, ended with a newline.
  void finish(std::string& out);

 private:
  void emit(std::string_view line, std::string& out);
  std::string prefix_;
  std::string partial_{};  // the unfinished line
};

}  // namespace tutti::launcher
