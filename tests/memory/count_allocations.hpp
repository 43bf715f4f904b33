// Counts what a test program asks the allocator for. Linking count_allocations.cpp puts the counter
// in front of the C library's malloc, which operator new goes through as well.
#pragma once

#include <cstdint>

namespace tutti::testing {

/// Calls of malloc and its relatives by any thread of this process so far.
std::uint64_t allocation_count();
/// Those by the calling thread.
std::uint64_t thread_allocation_count();

}  // namespace tutti::testing
