// The one piece of linear algebra that the network needs: c += a * b, over views of plain memory.
// Rows of `b` and `c` are contiguous, so that the innermost loop runs over neighbouring elements
// and the compiler turns it into vector instructions.
#pragma once

#include <algorithm>
#include <cstddef>

namespace fashion_mnist {

/// A matrix somewhere in memory; element (i, j) is data[i * row_step + j * column_step].
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_step = columns;
  std::size_t column_step = 1;

  T* row(std::size_t i) const { return data + i * row_step; }
  T& at(std::size_t i, std::size_t j) const { return data[i * row_step + j * column_step]; }
  /// The same memory seen the other way round; nothing is copied.
  Matrix transposed() const { return {data, columns, rows, column_step, row_step}; }
};

/// c += a * b. Adds in the same order whatever the number of rows of `a`, so that a sample's
/// activations have the same bits on any number of ranks.
template <class T>
void add_product(Matrix<T> c, Matrix<T> a, Matrix<T> b) {
  constexpr std::size_t kDepth = 64;  // rows of b that stay in the first-level cache meanwhile
  for (std::size_t start = 0; start < b.rows; start += kDepth) {
    const std::size_t stop = std::min(start + kDepth, b.rows);
    for (std::size_t i = 0; i < c.rows; ++i) {
      T* __restrict out = c.row(i);
      std::size_t k = start;
      for (; k + 4 <= stop; k += 4) {  // four rows at once: `out` is loaded and stored less often
        const T a0 = a.at(i, k), a1 = a.at(i, k + 1), a2 = a.at(i, k + 2), a3 = a.at(i, k + 3);
        const T *b0 = b.row(k), *b1 = b.row(k + 1), *b2 = b.row(k + 2), *b3 = b.row(k + 3);
        for (std::size_t j = 0; j < c.columns; ++j) {
          out[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
        }
      }
      for (; k < stop; ++k) {
        const T a0 = a.at(i, k);
        const T* b0 = b.row(k);
        for (std::size_t j = 0; j < c.columns; ++j) {
          out[j] += a0 * b0[j];
        }
      }
    }
  }
}

}  // namespace fashion_mnist
