// Tensor::to_string. A tensor that fits one line is printed on one line; others get one line per
// innermost row with aligned columns, and a blank line between matrices. Long ones show the first
// and last few entries of each dimension and add the shape.
#include "base/limits.hpp"
#include "tensor/layout.hpp"
#include "tensor/scalar.hpp"

#include <tutti/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace tutti {
namespace {

constexpr std::size_t kLineColumns = 88;
constexpr std::string_view kOpening = "tensor(";
constexpr std::int64_t kEverything = INT64_MAX;

/// Entries that stay of a dimension when `edge` are kept at each end.
std::int64_t kept(std::int64_t extent, std::int64_t edge) {
  return edge == kEverything || extent <= 2 * edge ? extent : 2 * edge;
}

bool fits(const Shape& shape, std::int64_t edge) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    count *= static_cast<std::size_t>(kept(extent, edge));
    if (count > limits::kMaxPrintedElements) {
      return false;
    }
  }
  return true;
}

class Printer {
 public:
  Printer(const Tensor& tensor, std::int64_t edge)
      : shape_(tensor.shape()), strides_(tensor.strides()), dtype_(tensor.dtype()), edge_(edge) {}

  /// One line without padding, or nothing if it gets too long.
  std::string line(const std::byte* data) {
    print(0, data);
    return out_.size() <= kLineColumns ? std::move(out_) : std::string();
  }

  std::string block(const std::byte* data) {
    one_line_ = false;
    out_.clear();
    width_ = widest(0, data);
    column_ = kOpening.size();
    print(0, data);
    return std::move(out_);
  }

 private:
  const std::byte* entry(std::size_t d, const std::byte* data, std::int64_t i) const {
    return i == 0 ? data
                  : data + i * strides_[d] * static_cast<std::int64_t>(element_bytes(dtype_));
  }

  /// Calls `use` with each index of dimension `d` that is printed.
  template <class Use>
  void each(std::size_t d, Use use) const {
    const std::int64_t extent = shape_[d];
    const bool cut = kept(extent, edge_) != extent;
    for (std::int64_t i = 0; i < extent; ++i) {
      if (cut && i == edge_) {
        i = extent - edge_;
      }
      use(i, cut && i == extent - edge_);
    }
  }

  std::size_t widest(std::size_t d, const std::byte* data) const {
    if (d == shape_.size()) {
      return scalar::text(dtype_, data).size();
    }
    std::size_t width = 0;
    each(d,
         [&](std::int64_t i, bool) { width = std::max(width, widest(d + 1, entry(d, data, i))); });
    return width;
  }

  void print(std::size_t d, const std::byte* data) {
    if (d == shape_.size()) {
      write(fmt::format("{:>{}}", scalar::text(dtype_, data), width_));
      return;
    }
    write("[");
    each(d, [&](std::int64_t i, bool after_gap) {
      if (after_gap) {
        separate(d, 3);
        write("...");
      }
      if (i != 0) {
        separate(d, width_);
      }
      print(d + 1, entry(d, data, i));
    });
    write("]");
  }

  void write(std::string_view text) {
    out_ += text;
    column_ += text.size();
  }

  /// Between entries of dimension `d`; the next one takes `columns` columns.
  void separate(std::size_t d, std::size_t columns) {
    const std::size_t below = shape_.size() - 1 - d;  // dimensions inside an entry
    const bool same_line = one_line_ || (below == 0 && column_ + 4 + columns < kLineColumns);
    if (same_line) {
      write(", ");
      return;
    }
    out_ += ',';
    out_.append(std::max<std::size_t>(std::min<std::size_t>(below, 2), 1), '\n');
    column_ = kOpening.size() + d + 1;
    out_.append(column_, ' ');
  }

  const Shape& shape_;
  const Shape& strides_;
  DType dtype_;
  std::int64_t edge_;
  bool one_line_ = true;
  std::size_t width_ = 0;   // of an element, padded on the left
  std::size_t column_ = 0;  // where the next character goes
  std::string out_{};
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) {
    return "tensor(undefined)";
  }
  const auto* data = data_as<std::byte>();
  if (elements_ == 0) {
    return fmt::format("{}[], shape={}, dtype={})", kOpening, layout::text(shape_), name(dtype_));
  }
  for (const std::int64_t edge : {kEverything, std::int64_t{3}, std::int64_t{1}}) {
    if (!fits(shape_, edge)) {
      continue;
    }
    Printer printer(*this, edge);
    std::string values = printer.line(data);
    if (values.empty()) {
      values = printer.block(data);
    }
    const std::string shape =
        edge == kEverything ? "" : fmt::format(", shape={}", layout::text(shape_));
    return fmt::format("{}{}{}, dtype={})", kOpening, values, shape, name(dtype_));
  }
  return fmt::format("{}..., shape={}, dtype={})", kOpening, layout::text(shape_), name(dtype_));
}

}  // namespace tutti
