// Request: one call, whatever its name. Validation turns it into a Call: the facts that engine and
// backends need, with every block located.
#pragma once

#include "plan/fingerprint.hpp"
#include "plan/op_context.hpp"
#include "plan/spec.hpp"

#include <tutti/options.hpp>
#include <tutti/tensor.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

/// How a side with every rank's share is given: one tensor cut along dimension 0, or one per rank.
enum class Form : std::uint8_t { single, list };

struct Request {
  Op op = Op::barrier;
  std::span<const Tensor> in{};
  std::span<const Tensor> out{};
  Form form = Form::single;
  std::span<const std::int64_t> in_rows{};  ///< all_to_all_single: rows of dimension 0 per rank
  std::span<const std::int64_t> out_rows{};
  ReduceOp reduce = ReduceOp::sum;
  std::complex<double> factor{1.0, 0.0};
  int root = 0;
  int peer = -1;  ///< send, recv
  int tag = 0;
  bool allow_self = false;  ///< send, recv: part of a batch
  std::optional<std::chrono::milliseconds> timeout{};
};

/// One rank's share on one side of a call.
struct BlockView {
  std::byte* data;
  std::size_t elements;
};

/// The blocks of one side. Up to kInline of them need no allocation.
class BlockList {
 public:
  static constexpr std::size_t kInline = 16;

  // Written out so that neither making nor copying a list touches blocks it does not hold: lists
  // are made and copied in every call.
  BlockList() {}
  BlockList(const BlockList& other) { *this = other; }
  BlockList& operator=(const BlockList& other) {
    size_ = other.size_;
    if (size_ <= kInline) {
      std::copy_n(other.inline_.begin(), size_, inline_.begin());
    } else {
      more_ = other.more_;
    }
    return *this;
  }

  void clear() { size_ = 0; }
  void push_back(const BlockView& block) {
    if (size_ < kInline) {
      inline_[size_++] = block;
      return;
    }
    if (size_ == kInline) {
      more_.assign(inline_.begin(), inline_.end());
    }
    more_.resize(size_++);
    more_.push_back(block);
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const BlockView* data() const { return size_ <= kInline ? inline_.data() : more_.data(); }
  BlockView* data() { return size_ <= kInline ? inline_.data() : more_.data(); }
  const BlockView& operator[](std::size_t i) const { return data()[i]; }
  BlockView& operator[](std::size_t i) { return data()[i]; }
  BlockView* begin() { return data(); }
  BlockView* end() { return data() + size_; }
  const BlockView* begin() const { return data(); }
  const BlockView* end() const { return data() + size_; }

 private:
  std::array<BlockView, kInline> inline_;  // written before it is read
  std::vector<BlockView> more_{};
  std::size_t size_ = 0;
};

/// A validated request.
struct Call {
  Op op = Op::barrier;
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  std::complex<double> factor{1.0, 0.0};
  int divisor = 1;  ///< avg: number of contributions
  int root = -1;
  /// Blocks of each side on this rank: none, one, or one per rank. Where the side's tensors are not
  /// row major, `data` is null until the engine has staged them.
  BlockList in{};
  BlockList out{};
  bool uneven = false;  ///< blocks of several sizes; only then do they have to be looked at singly
  bool pairwise_counts = false;  ///< all_to_all with splits: only each pair knows its count
  std::uint64_t fingerprint = 0;
  /// Hash of this and all earlier fingerprints of the group; set when the call takes its place.
  std::uint64_t history = 0;
};

/// A point-to-point message of a valid request, with what validate() made of it.
struct Message {
  Request request{};
  std::uint64_t fingerprint = 0;
};

/// What a group allows beyond the defaults.
struct GroupRules {
  bool complex_product = false;
};

/// Whether `op` is defined for `dtype` (docs/algorithms.md, "Reduce operations").
bool allows(ReduceOp op, DType dtype, const GroupRules& rules);

/// Checks `request` against its Spec row and fills `call`. Throws InvalidArgument or Unsupported,
/// before anything has been sent.
void validate(const Request& request, const OpContext& context, const GroupRules& rules,
              Call& call);

}  // namespace tutti
