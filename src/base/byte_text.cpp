#include "base/byte_text.hpp"

#include "base/limits.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

namespace tutti {

std::string short_bytes(std::size_t bytes) {
  constexpr std::array kUnits{"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::optional<std::size_t> read_bytes(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  double value = std::strtod(copy.c_str(), &end);
  const std::string_view unit = end;
  const std::size_t power = unit.empty() ? 0 : std::string_view("KkMmGgTt").find(unit) / 2 + 1;
  if (end == copy.c_str() || unit.size() > 1 || power > 4) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < power; ++i) {
    value *= 1024;
  }
  if (!(value >= 0 && value <= static_cast<double>(limits::kMaxTensorBytes))) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(value);
}

}  // namespace tutti
