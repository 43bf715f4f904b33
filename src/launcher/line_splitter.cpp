#include "launcher/line_splitter.hpp"

#include "base/limits.hpp"

#include <algorithm>

namespace tutti::launcher {

void LineSplitter::emit(std::string_view line, std::string& out) {
  out += prefix_;
  out += partial_;
  out += line;
  out += '\n';
  partial_.clear();
}

void LineSplitter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = limits::kMaxLineBytes - partial_.size();
    const std::size_t length = std::min({newline, room, bytes.size()});
    if (length == newline) {
      emit(bytes.substr(0, length), out);
      bytes.remove_prefix(length + 1);
    } else if (length == room) {
      emit(bytes.substr(0, length), out);
      bytes.remove_prefix(length);
    } else {
      partial_ += bytes;
      return;
    }
  }
}

void LineSplitter::finish(std::string& out) {
  if (!partial_.empty()) {
    emit({}, out);
  }
}

}  // namespace tutti::launcher
