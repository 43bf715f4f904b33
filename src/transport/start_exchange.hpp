// StartExchange: what the ranks of a job tell each other through the store while they start. Each
// publishes values under names that all know, and reads those of the others once they are there. A
// rank that fails publishes the cause: nobody waits for it any longer.
#pragma once

#include "base/clock.hpp"

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

// What a rank publishes, each under its own rank; connect.hpp tells what they are.
inline constexpr std::string_view kStartCard = "card";
inline constexpr std::string_view kStartReached = "reached";
inline constexpr std::string_view kStartMapped = "mapped";
inline constexpr std::string_view kStartTcp = "tcp";

class StartExchange {
 public:
  struct Options {
    std::shared_ptr<Store> store{};
    int rank = 0;
    int world_size = 1;
    std::chrono::milliseconds timeout{};  ///< of the whole start, from now on
  };
  explicit StartExchange(Options options)
      : options_(std::move(options)), deadline_(Deadline::after(options_.timeout)) {}

  Deadline deadline() const { return deadline_; }
  void publish(std::string_view what, std::string_view value);
  /// What `ranks` published, once all of them have. Throws Timeout naming those who have not,
  /// PeerLost naming one that failed, with the cause.
  std::vector<std::string> fetch(std::string_view what, const std::vector<int>& ranks);
  /// Publishes, and fetches what all ranks did.
  std::vector<std::string> exchange(std::string_view what, std::string_view value);
  /// This rank fails. Returns when all others know, within reason: the store may live in this
  /// process.
  void tell_others(const Error& error);

 private:
  void refuse_if_failed();
  void refuse_late(const std::vector<std::string>& keys, const std::vector<int>& ranks) const;

  Options options_;
  Deadline deadline_;
  std::string failure_{};  ///< what another rank published when it failed
};

}  // namespace tutti
