#include "base/ensure.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

namespace tutti {

void ensure_failed(const char* what, const char* file, int line) {
  throw Internal(fmt::format("internal error at {}:{}: {}", file, line, what));
}

}  // namespace tutti
