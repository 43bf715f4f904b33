#include "transport/start_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace tutti {
namespace {

/// Begins the cause that a failed rank publishes.
constexpr std::string_view kFailed = "!";
/// Published by a rank that has said why it fails and waits for nothing any more.
constexpr std::string_view kGone = "gone";
constexpr std::chrono::seconds kNewsLimit{1};

std::string key_of(std::string_view what, int rank) { return fmt::format("{}/{}", what, rank); }

std::vector<std::string> keys_of(std::string_view what, const std::vector<int>& ranks) {
  std::vector<std::string> keys;
  for (const int rank : ranks) {
    keys.push_back(key_of(what, rank));
  }
  return keys;
}

std::vector<int> all_ranks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

void StartExchange::publish(std::string_view what, std::string_view value) {
  options_.store->set(key_of(what, options_.rank), value);
}

std::vector<std::string> StartExchange::exchange(std::string_view what, std::string_view value) {
  publish(what, value);
  return fetch(what, all_ranks(options_.world_size));
}

std::vector<std::string> StartExchange::fetch(std::string_view what,
                                              const std::vector<int>& ranks) {
  const std::vector<std::string> keys = keys_of(what, ranks);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline_.left(std::chrono::steady_clock::now()));
  try {
    options_.store->wait(keys, std::max(left, std::chrono::milliseconds(1)));
  } catch (const Timeout&) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!options_.store->check(std::span(&keys[i], 1))) {
        missing.push_back(ranks[i]);
      }
    }
    throw Timeout(
        fmt::format("joining the job (rank {} of {}): no sign of rank {} at {} after {} ms; "
                    "check that every rank was started",
                    options_.rank, options_.world_size, fmt::join(missing, ", "),
                    options_.store->describe(), options_.timeout.count()));
  }
  std::vector<std::string> values = options_.store->multi_get(keys);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].starts_with(kFailed)) {
      cause_ = values[i];
      throw PeerLost(fmt::format("joining the job (rank {} of {}): {}", options_.rank,
                                 options_.world_size, cause_.substr(kFailed.size())),
                     ranks[i]);
    }
  }
  return values;
}

void StartExchange::tell_others(const Error& error) {
  if (cause_.empty()) {
    cause_ = fmt::format("{}rank {} cannot join: {}", kFailed, options_.rank, error.what());
  }
  try {
    for (const std::string_view what : {kStartCard, kStartReached, kStartMapped, kStartTcp}) {
      options_.store->compare_set(key_of(what, options_.rank), "", cause_);
    }
    publish(kGone, "1");
    options_.store->wait(keys_of(kGone, all_ranks(options_.world_size)), kNewsLimit);
  } catch (const Error&) {
    // The store has gone, or somebody has not come this far: the error at hand says more.
  }
}

}  // namespace tutti
