// ensure(): an invariant of tutti itself; stays on in release builds. User input can never trip it:
// that is InvalidArgument's job.
#pragma once

namespace tutti {

[[noreturn]] void ensure_failed(const char* what, const char* file, int line);

inline void ensure(bool holds, const char* what, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    ensure_failed(what, file, line);
  }
}

}  // namespace tutti
