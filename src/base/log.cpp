#include "base/log.hpp"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

namespace tutti {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function;
};
// The sink belongs to the process, as standard error does; it holds no state of any context.
Sink& sink() {
  static auto* instance = new Sink;  // never destroyed: other destructors may still log
  return *instance;
}

void write_to_stderr(std::string_view line) {
  const char* mode = std::getenv("TUTTI_LOG");
  if (mode != nullptr && std::string_view(mode) == "quiet") {
    return;
  }
  std::string text = "tutti: ";
  text.append(line);
  text.push_back('\n');
  // One write per line keeps lines of several processes apart; a failed write has nowhere to go.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void log_line(std::string_view line) {
  const std::scoped_lock lock(sink().mutex);
  if (sink().function) {
    sink().function(line);
  } else {
    write_to_stderr(line);
  }
}

void set_log_sink(LogSink new_sink) {
  const std::scoped_lock lock(sink().mutex);
  sink().function = std::move(new_sink);
}

}  // namespace tutti
