// Scratch: memory that grows to what a group's operations need and is used again by the next one.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace tutti {

/// What a pooled state may keep for its next operation.
inline constexpr std::size_t kKeptScratchBytes = std::size_t{64} << 10;

class Scratch {
 public:
  /// At least `bytes`, 64-byte aligned; what was there before is lost if it has to grow.
  std::byte* take(std::size_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();
      memory_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
      capacity_ = bytes;
    }
    return memory_.get();
  }
  std::size_t capacity() const { return capacity_; }
  void release() {
    memory_.reset();
    capacity_ = 0;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> memory_{};
  std::size_t capacity_ = 0;
};

}  // namespace tutti
