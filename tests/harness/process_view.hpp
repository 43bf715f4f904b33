// What the kernel tells of the calling process: where it listens, which memory it shares.
#pragma once

#include <set>
#include <string>

namespace tutti::testing {

/// Local addresses of this process's listening TCP sockets, such as "127.0.0.1" or "::".
std::set<std::string> tcp_listeners();

/// Segments that this process has mapped, its own included: path and inode of each.
std::set<std::string> mapped_segments();

}  // namespace tutti::testing
