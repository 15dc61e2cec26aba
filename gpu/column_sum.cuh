// Sums over the rows of a matrix, column by column, in panels of 1024 rows (numerics.md §7): one thread per column and
// panel, then the panels' results added in ascending order.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/map.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {

/// out[panel, column] of one panel; fold(acc, row, column) takes an element into the panel's sum.
template <class Fold>
__global__ void column_panels_kernel(Fold fold, float* out, int64_t rows, int64_t columns, int64_t panels) {
  const int64_t i = thread_index();
  if (i >= panels * columns) return;
  const int64_t panel = quotient(i, columns), column = i - panel * columns;
  const int64_t last = least(rows, (panel + 1) * kPanel);
  float acc = 0.0f;
#pragma unroll 32  // loads in flight: few threads share the work
  for (int64_t row = panel * kPanel; row < last; ++row) acc = fold(acc, row, column);
  out[i] = acc;
}

/// out[column] = panel 0, then panel 1, 2, … added.
__global__ static void add_panels_kernel(const float* panels, float* out, int64_t columns, int64_t count) {
  const int64_t column = thread_index();
  if (column >= columns) return;
  float sum = panels[column];
  for (int64_t p = 1; p < count; ++p) sum = sum + panels[p * columns + column];
  out[column] = sum;
}

/// out[column] = Σ over rows by fold; +0 without rows.
template <class Fold>
void sum_columns(Context& context, const Fold& fold, int64_t rows, int64_t columns, float* out) {
  const int64_t panels = ceil_div(rows, kPanel);
  if (panels == 0) return context.zero(out, columns * static_cast<int64_t>(sizeof(float)));
  float* partial = panels == 1 ? out : context.scratch<float>(panels * columns);
  context.launch(column_panels_kernel<Fold>, context.per_item(panels * columns), fold, partial, rows, columns, panels);
  if (panels > 1) context.launch(add_panels_kernel, context.per_item(columns), partial, out, columns, panels);
}

/// Elements themselves: acc = fl(acc + x).
struct ColumnElements {
  const float* x;
  int64_t columns;
  __device__ float operator()(float acc, int64_t row, int64_t column) const { return acc + x[row * columns + column]; }
};

}  // namespace fp4sim::gpu
