// Sums over the rows of a matrix, column by column, in panels of 1024 rows (numerics.md §7). A block of threads takes
// 32 columns of a panel: all its warps bring rows into shared memory, and one warp for each sum folds them in ascending
// order, a lane a column. Then the panels' results are added in ascending order.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/map.cuh"
#include "gpu/warp.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {

constexpr int kSumThreads = 256, kSumWarps = kSumThreads / kWarp;
constexpr int kSumRows = 64;  // rows of one tile in shared memory
constexpr int kSumLoads = kSumRows / kSumWarps;

/// out[s][panel, column] of one panel for the sums s < Fold::kSums. A fold gives Term{float v[kTerms]} from
/// term(row, column), and add(s, acc, v) takes one into the panel's sum s.
template <class Fold>
__global__ void __launch_bounds__(kSumThreads)
    column_panels_kernel(Fold fold, float* out, int64_t rows, int64_t columns, int64_t panels) {
  constexpr int kTerms = Fold::kTerms;
  __shared__ float tiles[2][kTerms][kSumRows][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t across = (columns + kWarp - 1) / kWarp, panel = quotient(blockIdx.x, across);
  const int64_t column = (blockIdx.x - panel * across) * kWarp + lane, used = least(column, columns - 1);
  const int64_t first = panel * kPanel;
  const int count = static_cast<int>(least(rows - first, kPanel));
  typename Fold::Term terms[kSumLoads];
  const auto load = [&](int from) {
#pragma unroll
    for (int k = 0; k < kSumLoads; ++k) {
      const int row = from + warp + k * kSumWarps;
      if (row < count) terms[k] = fold.term(first + row, used);
    }
  };
  float acc = 0.0f;
  load(0);
  for (int from = 0, tile = 0; from < count; from += kSumRows, tile ^= 1) {
#pragma unroll
    for (int k = 0; k < kSumLoads; ++k)
#pragma unroll
      for (int t = 0; t < kTerms; ++t) tiles[tile][t][warp + k * kSumWarps][lane] = terms[k].v[t];
    __syncthreads();  // also: the folds of the tile before the last are done
    if (from + kSumRows < count) load(from + kSumRows);
    if (warp >= Fold::kSums) continue;
    const int tile_rows = count - from < kSumRows ? count - from : kSumRows;
#pragma unroll 16
    for (int r = 0; r < tile_rows; ++r) {
      float v[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) v[t] = tiles[tile][t][r][lane];
      acc = fold.add(warp, acc, v);
    }
  }
  if (warp < Fold::kSums && column < columns) out[(warp * panels + panel) * columns + column] = acc;
}

/// out[s][column] = panel 0, then panel 1, 2, … added.
struct ColumnOutputs {
  float* sums[2];
};
__global__ static void add_panels_kernel(const float* panels, ColumnOutputs out, int64_t columns, int64_t count) {
  const int64_t column = thread_index();
  if (column >= columns) return;
  const float* from = panels + blockIdx.y * count * columns + column;
  float sum = from[0];
#pragma unroll 16
  for (int64_t p = 1; p < count; ++p) sum = sum + from[p * columns];
  out.sums[blockIdx.y][column] = sum;
}

/// out.sums[s][column] = Σ over rows by sum s of the fold; +0 without rows.
template <class Fold>
void sum_columns(Context& context, const Fold& fold, int64_t rows, int64_t columns, const ColumnOutputs& out) {
  const int64_t panels = ceil_div(rows, kPanel);
  if (panels == 0) {
    for (int s = 0; s < Fold::kSums; ++s) context.zero(out.sums[s], columns * static_cast<int64_t>(sizeof(float)));
    return;
  }
  float* partial = context.scratch<float>(Fold::kSums * panels * columns);
  context.launch(column_panels_kernel<Fold>, Context::per_block(panels * ceil_div(columns, kWarp), kSumThreads), fold,
                 partial, rows, columns, panels);
  Grid grid = context.per_item(columns);
  grid.blocks.y = Fold::kSums;
  context.launch(add_panels_kernel, grid, partial, out, columns, panels);
}

/// Elements themselves: acc = fl(acc + x).
struct ColumnElements {
  static constexpr int kTerms = 1, kSums = 1;
  struct Term {
    float v[kTerms];
  };
  const float* x;
  int64_t columns;
  __device__ Term term(int64_t row, int64_t column) const { return {{x[row * columns + column]}}; }
  __device__ float add(int, float acc, const float (&v)[kTerms]) const { return acc + v[0]; }
};

}  // namespace fp4sim::gpu
