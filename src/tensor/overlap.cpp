// Do two different indices of a strided layout reach one offset? They do exactly if some vector d,
// not all 0, with |d_k| < extent_k has sum d_k * stride_k = 0. Signs of strides do not matter.
// Axes are sorted by stride; usually each stride is longer than all that the shorter ones reach,
// which settles the question at once. Otherwise the search below goes from the longest axis down,
// pruned by reach and by divisibility, within a fixed number of steps.
#include "tensor/layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace tutti::layout {
namespace {

constexpr int kSearchSteps = 100000;

struct Axis {
  std::int64_t extent;
  std::int64_t stride;
};

class CollisionSearch {
 public:
  /// `axes`: extents above 1, strides above 0, sorted by stride.
  explicit CollisionSearch(std::vector<Axis> axes) : axes_(std::move(axes)) {
    for (const Axis& axis : axes_) {
      reach_.push_back(reach_.back() + (axis.extent - 1) * axis.stride);
      divisor_.push_back(std::gcd(divisor_.back(), axis.stride));
    }
  }

  bool found() {
    for (std::size_t top = 1; top < axes_.size(); ++top) {
      if (collides_at(top)) {
        return true;
      }
    }
    return false;
  }

 private:
  /// Whether some d has its highest entry other than 0 at `top`; positive without loss.
  bool collides_at(std::size_t top) {
    const std::int64_t last = std::min(axes_[top].extent - 1, reach_[top] / axes_[top].stride);
    for (std::int64_t d = 1; d <= last; ++d) {
      if (reaches(top, d * axes_[top].stride)) {
        return true;
      }
    }
    return false;
  }

  /// Whether the first `count` axes can sum up to `goal`.
  bool reaches(std::size_t count, std::int64_t goal) {
    if (--steps_left_ < 0) {
      return true;
    }
    if (goal == 0) {
      return true;
    }
    if (std::abs(goal) > reach_[count] || goal % divisor_[count] != 0) {
      return false;
    }
    const Axis axis = axes_[count - 1];  // count > 0: with no axis the reach is 0
    const std::int64_t rest = reach_[count - 1];
    // Truncation widens these bounds by one at most; the call prunes what is outside.
    const std::int64_t first = std::max((goal - rest) / axis.stride, 1 - axis.extent);
    const std::int64_t last = std::min((goal + rest) / axis.stride, axis.extent - 1);
    for (std::int64_t d = first; d <= last; ++d) {
      if (reaches(count - 1, goal - d * axis.stride)) {
        return true;
      }
    }
    return false;
  }

  std::vector<Axis> axes_;
  std::vector<std::int64_t> reach_{0};    // of the axes before this one
  std::vector<std::int64_t> divisor_{0};  // of their strides
  int steps_left_ = kSearchSteps;
};

}  // namespace

bool overlaps_itself(const Shape& shape, const Shape& strides) {
  if (is_row_major(shape, strides)) {
    return false;
  }
  std::vector<Axis> axes;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 1) {
      continue;
    }
    if (strides[d] == 0) {
      return true;
    }
    axes.push_back({shape[d], std::abs(strides[d])});
    elements *= shape[d];
  }
  const Reach range = reach(shape, strides);
  if (elements > range.highest - range.lowest + 1) {
    return true;  // more indices than offsets
  }
  std::ranges::sort(axes, {}, &Axis::stride);
  return CollisionSearch(std::move(axes)).found();
}

}  // namespace tutti::layout
