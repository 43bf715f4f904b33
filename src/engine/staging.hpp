// Staging: row-major copies of the tensors of a call that are not row major themselves. Inputs are
// packed before the call, outputs unpacked after it, so that plans only ever see contiguous blocks.
#pragma once

#include "engine/scratch.hpp"
#include "plan/request.hpp"

#include <vector>

namespace tutti {

class Staging {
 public:
  /// Gives every block of `call` without an address one in staging memory, and packs the inputs.
  void prepare(const Request& request, Seat seat, Call& call);
  /// Turns a premul_sum into the sum of staged, scaled inputs, for algorithms that sum the inputs
  /// of others without knowing their factors. Narrow floats travel as their accumulators from there
  /// on, outputs included, so that they are rounded once.
  void scale(Call& call);
  /// Copies what was received to the caller's tensors.
  void finish();
  std::size_t capacity() const { return memory_.capacity() + scaled_.capacity(); }
  /// Forgets the caller's tensors, and gives memory of more than `kept_bytes` back.
  void let_go(std::size_t kept_bytes) {
    back_.clear();
    if (capacity() > kept_bytes) {
      memory_.release();
      scaled_.release();
    }
  }
  bool used() const { return !back_.empty() || packed_; }

 private:
  struct Copy {
    const std::byte* staged;
    Tensor tensor;
  };
  struct Narrowing {
    const std::byte* wide;
    BlockView narrow;
    DType dtype;
  };
  Scratch memory_{};
  Scratch scaled_{};
  std::vector<Copy> back_{};
  std::vector<Narrowing> narrowings_{};
  bool packed_ = false;
};

}  // namespace tutti
