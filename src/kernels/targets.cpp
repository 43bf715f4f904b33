// Which of Highway's targets this CPU runs: the functions of Highway's library that dynamic
// dispatch calls. They are defined here because loading libhwy.so costs a process 7 ms: its
// initialiser measures how fast the CPU's clock ticks, for a benchmark that nobody here runs. So
// only Highway's headers are used. Hidden, like all that is not public: a program that links libhwy
// itself is not affected. What a target needs of the CPU is Highway's own definition of it.
#include <hwy/targets.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdint>

namespace {

#if HWY_ARCH_X86

struct Registers {
  std::uint32_t eax = 0;
  std::uint32_t ebx = 0;
  std::uint32_t ecx = 0;
  std::uint32_t edx = 0;
};

Registers cpuid(std::uint32_t leaf) {
  Registers r;
  (void)__get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx,
                          &r.edx);  // zeros if there is no such leaf
  return r;
}

constexpr std::uint32_t bits() { return 0; }
template <typename... More>
constexpr std::uint32_t bits(int first, More... more) {
  return (std::uint32_t{1} << first) | bits(more...);
}
constexpr bool has(std::uint32_t value, std::uint32_t all) { return (value & all) == all; }

/// Register sets whose contents the system keeps for each thread.
std::uint32_t kept_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::int64_t detect() {
  const Registers basic = cpuid(1);
  const Registers more = cpuid(7);
  const bool lzcnt = has(cpuid(0x80000001U).ecx, bits(5));
  std::int64_t targets = HWY_STATIC_TARGET | HWY_EMU128;
  if (!has(basic.ecx, bits(0, 9))) {  // SSE3, SSSE3
    return targets;
  }
  targets |= HWY_SSSE3;
  if (!has(basic.ecx, bits(1, 19, 20, 25))) {  // PCLMUL, SSE4.1, SSE4.2, AES
    return targets;
  }
  targets |= HWY_SSE4;
  constexpr std::uint32_t kYmm = bits(1, 2);
  constexpr std::uint32_t kZmm = kYmm | bits(5, 6, 7);
  const std::uint32_t kept = has(basic.ecx, bits(27)) ? kept_registers() : 0;  // OSXSAVE
  // FMA, AVX, F16C; BMI, AVX2, BMI2
  if (!has(kept, kYmm) || !has(basic.ecx, bits(12, 28, 29)) || !has(more.ebx, bits(3, 5, 8)) ||
      !lzcnt) {
    return targets;
  }
  targets |= HWY_AVX2;
  if (!has(kept, kZmm) || !has(more.ebx, bits(16, 17, 28, 30, 31))) {  // AVX-512 F, DQ, CD, BW, VL
    return targets;
  }
  targets |= HWY_AVX3;
  // VBMI, VBMI2, GFNI, VAES, VPCLMULQDQ, VNNI, BITALG, VPOPCNTDQ
  return has(more.ecx, bits(1, 6, 8, 9, 10, 11, 12, 14)) ? targets | HWY_AVX3_DL : targets;
}

#else

/// What the compiler was told to build for.
std::int64_t detect() { return HWY_STATIC_TARGET | HWY_EMU128; }

#endif

std::atomic<std::int64_t> pretended{0};  // by a test; a lone number, so relaxed

}  // namespace

namespace hwy {

std::int64_t SupportedTargets() {
  const std::int64_t instead = pretended.load(std::memory_order_relaxed);
  static const std::int64_t detected = detect();
  return instead != 0 ? instead : detected;
}

void SetSupportedTargetsForTest(std::int64_t targets) {
  pretended.store(targets, std::memory_order_relaxed);
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
