// The order of sums (numerics.md §7): rows in 32 lanes and chunks of 4096, columns in panels of 1024.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/contract/reduction_order.h"

namespace fp4sim::scalar {

/// Σ x[i] of one row of n elements in the row order; +0 for n = 0.
float rowsum(const float* x, int64_t n);

/// Σ a[i]·b[i] of one row: every lane folds acc = fma(a, b, acc); lanes and chunks are added as in rowsum.
float rowsum_products(const float* a, const float* b, int64_t n);

/// out[c] = Σ over rows of x (rows, columns): panels of 1024 rows from +0, acc = fl(acc + v), added in ascending order.
void column_sum(const float* x, int64_t rows, int64_t columns, float* out);

/// out[c] = Σ over rows of a·b, both (rows, columns): the same panels with acc = fma(a, b, acc).
void column_sum_products(const float* a, const float* b, int64_t rows, int64_t columns, float* out);

/// The panel rule: panel(first, last) over [0, n) in steps of 1024, each computed by itself; the result is the first
/// panel's, then the others added in ascending order in binary32. +0 for n = 0.
template <class Panel>
float sum_of_panels(int64_t n, const Panel& panel) {
  if (n == 0) return 0.0f;
  float sum = panel(int64_t{0}, std::min(n, kPanel));
  for (int64_t first = kPanel; first < n; first += kPanel) sum = sum + panel(first, std::min(n, first + kPanel));
  return sum;
}

/// The larger of two values: NaN wins, and max(+0, −0) = +0 (numerics.md §1).
float max_of(float a, float b);

/// The maximum of n ≥ 1 elements by max_of.
float max_of(const float* x, int64_t n);

}  // namespace fp4sim::scalar
