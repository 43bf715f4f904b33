#include "transport/start_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>

namespace tutti {
namespace {

/// Under it the first rank that fails publishes its number and the cause, "3 no such interface".
constexpr std::string_view kFailed = "failed";
/// Published by a rank that has said why it fails and waits for nothing any more.
constexpr std::string_view kGone = "gone";
constexpr std::chrono::seconds kNewsLimit{1};
constexpr std::chrono::milliseconds kLookInterval{100};  // while some have not come: did one fail?

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
      refuse_if_failed();
      if (left == Duration::zero()) {
        refuse_late(keys, ranks);
      }
    }
  }
  return options_.store->multi_get(keys);
}

void StartExchange::refuse_if_failed() {
  const std::string key(kFailed);
  if (!options_.store->check(std::span(&key, 1))) {
    return;
  }
  failure_ = options_.store->get(key);
  const std::size_t space = std::min(failure_.find(' '), failure_.size());
  int rank = -1;
  std::from_chars(failure_.data(), failure_.data() + space, rank);
  throw PeerLost(fmt::format("joining the job (rank {} of {}): rank {} cannot join:{}",
                             options_.rank, options_.world_size, rank, failure_.substr(space)),
                 rank);
}

void StartExchange::refuse_late(const std::vector<std::string>& keys,
                                const std::vector<int>& ranks) const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!options_.store->check(std::span(&keys[i], 1))) {
      missing.push_back(ranks[i]);
    }
  }
  if (!missing.empty()) {
    throw Timeout(
        fmt::format("joining the job (rank {} of {}): no sign of rank {} at {} after {} ms; "
                    "check that every rank was started",
                    options_.rank, options_.world_size, fmt::join(missing, ", "),
                    options_.store->describe(), options_.timeout.count()));
  }
}

void StartExchange::tell_others(const Error& error) {
  try {
    if (failure_.empty()) {  // else this rank only passes on what another one said
      options_.store->compare_set(std::string(kFailed), "",
                                  fmt::format("{} {}", options_.rank, error.what()));
    }
    publish(kGone, "1");
    options_.store->wait(keys_of(kGone, all_ranks(options_.world_size)), kNewsLimit);
  } catch (const Error&) {
    // The store has gone, or somebody has not come this far: the error at hand says more.
  }
}

}  // namespace tutti
