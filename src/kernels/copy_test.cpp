// Copies of all lengths and alignments write what they must and nothing else.
#include "kernels/copy.hpp"

#include "kernels/every_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace tutti {
namespace {

constexpr std::array<std::size_t, 12> kBytes{0,   1,   15,  64,  127,  255,
                                             256, 511, 512, 513, 4096, 9000};
constexpr std::array<std::size_t, 4> kOffsets{0, 1, 17, 63};

TEST(CopyBytes, CopiesExactlyTheBytesAskedFor) {
  std::vector<unsigned char> source(10'000);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<unsigned char>(i * 7 + i / 256);
  }
  on_every_target([&] {
    for (const StoreType store : {StoreType::cached, StoreType::streaming}) {
      for (const std::size_t bytes : kBytes) {
        for (const std::size_t offset : kOffsets) {
          std::vector<unsigned char> target(source.size(), 0xee);
          std::vector<unsigned char> expected = target;
          std::copy_n(source.begin() + 3, bytes,
                      expected.begin() + static_cast<std::ptrdiff_t>(offset));
          copy_bytes(target.data() + offset, source.data() + 3, bytes, store);
          ASSERT_EQ(target, expected) << bytes << " bytes at offset " << offset;
        }
      }
    }
  });
  copy_bytes(nullptr, nullptr, 0, StoreType::streaming);
}

}  // namespace
}  // namespace tutti
