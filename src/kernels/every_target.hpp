// For tests: runs a check once under each instruction set that the kernels were built for and this
// CPU has.
#pragma once

#include "kernels/reduce.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <set>
#include <string>

namespace tutti {

/// Makes Highway believe, for its lifetime, that the CPU has only these sets.
class OnlyTargets {
 public:
  explicit OnlyTargets(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(targets);
  }
  ~OnlyTargets() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  OnlyTargets(const OnlyTargets&) = delete;
  OnlyTargets& operator=(const OnlyTargets&) = delete;
};

/// Returns the names of the sets that ran; sets without a build of their own run the fallback,
/// which counts once.
template <typename Check>
std::set<std::string> on_every_target(Check check) {
  std::set<std::string> ran;
  for (std::int64_t rest = hwy::SupportedTargets() | HWY_EMU128; rest != 0; rest &= rest - 1) {
    const OnlyTargets only(rest & -rest);
    const std::string target = kernel_target();
    if (ran.insert(target).second) {
      SCOPED_TRACE("instruction set " + target);
      check();
    }
  }
  return ran;
}

}  // namespace tutti
