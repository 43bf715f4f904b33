// The one way the library speaks outside of errors: a line to a sink the program may replace.
// Default: standard error, prefixed with "tutti: ". TUTTI_LOG=quiet silences it.
#pragma once

#include <functional>
#include <string_view>

namespace tutti {

using LogSink = std::function<void(std::string_view line)>;

/// Writes one line (no newline needed) to the sink. Thread-safe.
void log_line(std::string_view line);
/// Replaces the sink; an empty function restores the default.
void set_log_sink(LogSink sink);

}  // namespace tutti
