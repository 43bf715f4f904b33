// A small deterministic generator (SplitMix64), equal on every platform; std distributions are not.
// For tests, simulation and back-off jitter; secrets come from libsodium.
#pragma once

#include <cstdint>

namespace tutti {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// In [0, bound), bound > 0; the bias of the modulus is below 2^-32 for bounds under 2^32.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace tutti
