// Streaming copies through whole aligned vectors; the edges and cached copies are memcpy. Here is
// also the name of the instruction set, because it needs nothing else.
#include "kernels/copy.hpp"

#include "kernels/reduce.hpp"

#include <cstdint>
#include <cstring>

// Highway needs these lines in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

void copy_streaming(unsigned char* target, const unsigned char* source, std::size_t bytes) {
  const hn::ScalableTag<unsigned char> d;
  constexpr std::size_t kVector = hn::MaxLanes(d);
  constexpr std::size_t kLine = 4 * kVector;
  if (bytes >= 2 * kLine) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(target) % kVector;
    const std::size_t head = past == 0 ? 0 : kVector - past;
    std::memcpy(target, source, head);
    std::size_t i = head;
    for (; i + kLine <= bytes; i += kLine) {
      const auto a = hn::LoadU(d, source + i);
      const auto b = hn::LoadU(d, source + i + kVector);
      const auto c = hn::LoadU(d, source + i + 2 * kVector);
      const auto e = hn::LoadU(d, source + i + 3 * kVector);
      hn::Stream(a, d, target + i);
      hn::Stream(b, d, target + i + kVector);
      hn::Stream(c, d, target + i + 2 * kVector);
      hn::Stream(e, d, target + i + 3 * kVector);
    }
    // Streaming stores are not ordered with the flag that the caller stores next.
    hwy::FlushStream();
    target += i;
    source += i;
    bytes -= i;
  }
  std::memcpy(target, source, bytes);
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(target_name);
HWY_EXPORT(copy_streaming);

const char* kernel_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

void copy_bytes(void* target, const void* source, std::size_t bytes, StoreType store) {
  if (bytes == 0) {
    return;
  }
  if (store == StoreType::cached) {
    std::memcpy(target, source, bytes);
    return;
  }
  HWY_DYNAMIC_DISPATCH(copy_streaming)
  (static_cast<unsigned char*>(target), static_cast<const unsigned char*>(source), bytes);
}

}  // namespace tutti
#endif
