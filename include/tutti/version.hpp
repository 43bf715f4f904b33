// The library's version, as the headers were written; `tutti info` prints the library's own.
#pragma once

namespace tutti {

inline constexpr int kVersionMajor = 0;
inline constexpr int kVersionMinor = 1;
inline constexpr int kVersionPatch = 0;
inline constexpr const char* kVersion = "0.1.0";

}  // namespace tutti
