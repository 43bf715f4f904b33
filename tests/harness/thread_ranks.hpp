// Ranks as threads: every rank has a context of its own and they meet through a hash store. Quick
// to start and visible to the sanitizers; process_ranks.hpp has the real thing.
#pragma once

#include <tutti/tutti.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tutti::testing {

/// Runs `body(context)` on `size` threads; rethrows the first exception of the lowest rank that
/// threw.
inline void run_thread_ranks(int size, const std::function<void(Context&)>& body,
                             InitOptions options = {}) {
  const std::shared_ptr<Store> store = make_hash_store();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        InitOptions own = options;
        own.store = store->clone();
        own.rank = rank;
        own.world_size = size;
        const std::unique_ptr<Context> context = Context::create(own);
        body(*context);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace tutti::testing
