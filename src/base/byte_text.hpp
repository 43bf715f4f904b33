// Numbers of bytes as people write them: "64", "4K", "1.5M", "2G".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// "64", "4K", "1M": exact, so that read_bytes() gives the same number back.
std::string short_bytes(std::size_t bytes);

/// The number; nothing for any other text, negative numbers, or more than a tensor may hold.
std::optional<std::size_t> read_bytes(std::string_view text);

}  // namespace tutti
