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
constexpr std::chrono::milliseconds kLookInterval{500};  // while some have not come: who failed?

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
  for (;;) {
    const Duration left = deadline_.left(std::chrono::steady_clock::now());
    const auto slice = std::chrono::ceil<std::chrono::milliseconds>(
        std::clamp<Duration>(left, std::chrono::milliseconds(1), kLookInterval));
    try {
      options_.store->wait(keys, slice);
      break;
    } catch (const Timeout&) {
      const std::vector<int> missing = look(keys, ranks);
      if (left == Duration::zero() && !missing.empty()) {
        throw Timeout(
            fmt::format("joining the job (rank {} of {}): no sign of rank {} at {} after {} ms; "
                        "check that every rank was started",
                        options_.rank, options_.world_size, fmt::join(missing, ", "),
                        options_.store->describe(), options_.timeout.count()));
      }
    }
  }
  std::vector<std::string> values = options_.store->multi_get(keys);
  for (std::size_t i = 0; i < values.size(); ++i) {
    refuse_failed(values[i], ranks[i]);
  }
  return values;
}

/// While not all have come: some of them may have failed. Returns those that have not come.
std::vector<int> StartExchange::look(const std::vector<std::string>& keys,
                                     const std::vector<int>& ranks) {
  std::vector<int> missing;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (options_.store->check(std::span(&keys[i], 1))) {
      refuse_failed(options_.store->get(keys[i]), ranks[i]);
    } else {
      missing.push_back(ranks[i]);
    }
  }
  return missing;
}

void StartExchange::refuse_failed(const std::string& value, int rank) {
  if (value.starts_with(kFailed)) {
    cause_ = value;
    throw PeerLost(fmt::format("joining the job (rank {} of {}): {}", options_.rank,
                               options_.world_size, cause_.substr(kFailed.size())),
                   rank);
  }
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
