#include "memory/count_allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

// The C library's own, under the names it keeps for whoever replaces malloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

std::atomic<std::uint64_t> calls{0};
thread_local std::uint64_t calls_of_thread = 0;

// relaxed: a lone number, read by the thread that made the calls or after it was joined.
void count() {
  calls.fetch_add(1, std::memory_order_relaxed);
  ++calls_of_thread;
}

}  // namespace

// Used in place of the C library's, in the whole program. `free` stays: the memory is the same.
extern "C" {

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t number, std::size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  void* made = memalign(alignment, bytes);
  if (made == nullptr) {
    return ENOMEM;
  }
  *memory = made;
  return 0;
}

}  // extern "C"

namespace tutti::testing {

std::uint64_t allocation_count() { return calls.load(std::memory_order_relaxed); }
std::uint64_t thread_allocation_count() { return calls_of_thread; }

}  // namespace tutti::testing
