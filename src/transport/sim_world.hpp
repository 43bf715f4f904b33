// For tests of the message layer: some transports, all connected through one SimNetwork, driven in
// one thread until a condition holds or nothing can happen any more.
#pragma once

#include "transport/sim_link.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

class SimWorld {
 public:
  struct Fault {
    int at = -1;
    int from = -1;
    std::uint64_t group = 0;
    Failure failure{};
  };

  explicit SimWorld(int ranks, const SimLinkOptions& options = {}, std::uint64_t seed = 1)
      : network_(seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(std::make_unique<Transport>(
          rank, ranks, [this, rank](int peer, std::uint64_t group, const Failure& failure) {
            faults_.push_back({.at = rank, .from = peer, .group = group, .failure = failure});
          }));
    }
    for (int first = 0; first < ranks; ++first) {
      for (int second = first + 1; second < ranks; ++second) {
        auto ends = network_.connect({.first = first, .second = second}, options);
        (*this)[first].add_link(second, std::move(ends.first));
        (*this)[second].add_link(first, std::move(ends.second));
      }
    }
  }

  Transport& operator[](int rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  SimNetwork& network() { return network_; }
  const std::vector<Fault>& faults() const { return faults_; }
  void destroy(int rank) { transports_[static_cast<std::size_t>(rank)].reset(); }

  /// False if nothing can happen any more and the condition still does not hold.
  template <typename Condition>
  bool run_until(Condition condition) {
    while (!condition()) {
      bool moved = false;
      for (auto& transport : transports_) {
        moved = (transport != nullptr && transport->poll()) || moved;
      }
      if (!moved && !network_.advance()) {
        return condition();
      }
    }
    return true;
  }
  void run_to_end() {
    run_until([] { return false; });
  }

 private:
  SimNetwork network_;
  std::vector<Fault> faults_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

}  // namespace tutti
