// ForkGuard: a forked child must not hold the parent's connections, or a peer could not see the
// parent die. In the child each guarded number is made to point at /dev/null: the connection is let
// go, the number stays taken, so that a later close by the copied owner hits nothing else.
#pragma once

#include <cstdint>
#include <utility>

namespace tutti {

/// Grows with every fork on the way to this process; cheap, unlike getpid. An object that remembers
/// it can tell that it was copied into a forked child.
std::uint64_t fork_generation();

/// Guards one descriptor from construction to destruction. Declare it after the UniqueFd it guards,
/// so that it ends first.
class ForkGuard {
 public:
  ForkGuard() = default;
  explicit ForkGuard(int fd);
  ForkGuard(ForkGuard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ForkGuard& operator=(ForkGuard&& other) noexcept {
    if (this != &other) {
      release();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() { release(); }

 private:
  void release() noexcept;
  int fd_ = -1;
};

}  // namespace tutti
