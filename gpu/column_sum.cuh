// Sums over the rows of a matrix, column by column, in panels of 1024 rows (numerics.md §7). A block of threads takes a
// tile of columns of a panel: rows stream through a ring in shared memory by asynchronous copies, and a thread for each
// column of each sum folds them in ascending order. Then the panels' results are added in ascending order.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/map.cuh"
#include "gpu/tensor_core.cuh"
#include "gpu/warp.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {

constexpr int kSumThreads = 128;
constexpr int kStageElements = 1024;  // of each matrix in one stage of the ring
constexpr int kUnit = 4;              // columns of a 16-byte copy

/// What is folded: matrices of one shape side by side, and kFactors numbers for each row.
struct FoldSources {
  const float* x[2];
  const float* factors;
  int64_t rows, columns, panels;
};

/// Shared memory of a block: the ring of stages for a tile of kTile columns.
template <class Fold, int kTile>
struct FoldRing {
  static constexpr int kStages = Fold::kMatrices == 1 ? 7 : 4;  // 28 to 34 KiB: seven or six blocks a multiprocessor
  static constexpr int kRows = kStageElements / kTile;          // of a stage
  static_assert(kRows * Fold::kFactors <= kSumThreads && Fold::kSums * kTile <= kSumThreads);
  float x[kStages][Fold::kMatrices][kRows][kTile];
  float factors[kStages][kRows][Fold::kFactors > 0 ? Fold::kFactors : 1];
};

/// Starts the copies of a stage's `rows` rows from row `first` on. kWide: 16 bytes each, for columns in fours.
template <class Fold, int kTile, bool kWide>
__device__ inline void copy_rows(FoldRing<Fold, kTile>& ring, int stage, const FoldSources& s, int64_t first, int rows,
                                 int64_t column) {
  constexpr int kWidth = kWide ? kUnit : 1, kAcross = kTile / kWidth;
#pragma unroll
  for (int u = threadIdx.x; u < kStageElements / kWidth; u += kSumThreads) {
    const int row = u / kAcross, at = u % kAcross * kWidth;
    if (row >= rows || column + at >= s.columns) continue;
    const int64_t from = (first + row) * s.columns + column + at;
#pragma unroll
    for (int m = 0; m < Fold::kMatrices; ++m) {
      if constexpr (kWide)
        copy_async16(&ring.x[stage][m][row][at], s.x[m] + from);
      else
        copy_async4(&ring.x[stage][m][row][at], s.x[m] + from);
    }
  }
  if constexpr (Fold::kFactors > 0) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < rows * Fold::kFactors)
      copy_async4(&ring.factors[stage][i / Fold::kFactors][i % Fold::kFactors], s.factors + first * Fold::kFactors + i);
  }
}

/// out[s][panel, column] of one panel for the sums s < Fold::kSums. Fold::add(s, acc, v, f) takes a row's kMatrices
/// elements v and kFactors factors f into sum s. The last panels come first: the kernel before has left them in the
/// cache.
template <class Fold, int kTile, bool kWide>
__global__ void __launch_bounds__(kSumThreads) column_panels_kernel(FoldSources s, float* out) {
  using Ring = FoldRing<Fold, kTile>;
  constexpr int kStages = Ring::kStages, kRows = Ring::kRows;
  __shared__ __align__(16) Ring ring;
  const int sum = threadIdx.x / kTile, at = threadIdx.x % kTile;
  const int64_t across = (s.columns + kTile - 1) / kTile, strip = quotient(blockIdx.x, across);
  const int64_t column = (blockIdx.x - strip * across) * kTile, panel = s.panels - 1 - strip, first = panel * kPanel;
  const int count = static_cast<int>(least(s.rows - first, kPanel));
  const int stages = (count + kRows - 1) / kRows;
  const auto rows_of = [count](int stage) {
    const int left = count - stage * kRows;
    return left < kRows ? left : kRows;
  };
  const auto start = [&](int stage) {
    if (stage < stages)
      copy_rows<Fold, kTile, kWide>(ring, stage % kStages, s, first + stage * kRows, rows_of(stage), column);
    commit_copies();
  };
  for (int stage = 0; stage < kStages - 1; ++stage) start(stage);
  float acc = 0.0f;
  for (int stage = 0; stage < stages; ++stage) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this stage is here, and the one before is folded: its place takes new rows
    start(stage + kStages - 1);
    if (sum >= Fold::kSums) continue;
    const int slot = stage % kStages;
    const auto fold = [&](int row) {
      float v[Fold::kMatrices];
#pragma unroll
      for (int m = 0; m < Fold::kMatrices; ++m) v[m] = ring.x[slot][m][row][at];
      acc = Fold::add(sum, acc, v, ring.factors[slot][row]);
    };
    const int rows = rows_of(stage);
    if (rows == kRows) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) fold(row);
    } else {
      for (int row = 0; row < rows; ++row) fold(row);
    }
  }
  if (sum < Fold::kSums && column + at < s.columns) out[(sum * s.panels + panel) * s.columns + column + at] = acc;
}

/// out[s][column] = panel 0, then panel 1, 2, … added.
constexpr int kMostSums = 8;
struct ColumnOutputs {
  float* sums[kMostSums];
};
__global__ static void add_panels_kernel(const float* panels, ColumnOutputs out, int64_t columns, int64_t count) {
  constexpr int kAhead = 16;  // panels that are loaded at once
  const int64_t column = thread_index();
  if (column >= columns) return;
  const float* from = panels + blockIdx.y * count * columns + column;
  float sum = from[0];
  for (int64_t first = 1; first < count; first += kAhead) {
    float v[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) v[i] = first + i < count ? from[(first + i) * columns] : -0.0f;  // sum − 0 is sum
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sum = sum + v[i];
  }
  out.sums[blockIdx.y][column] = sum;
}

/// out.sums[s][column] = the sum of partial[s][panel, column] over the panels, for s < sums. One warp a block: few
/// columns still spread over the device.
inline void add_panels(Context& context, const float* partial, const ColumnOutputs& out, int sums, int64_t columns,
                       int64_t panels) {
  Grid grid = Context::per_block(ceil_div(columns, kWarp), kWarp);
  grid.blocks.y = static_cast<unsigned>(sums);
  context.launch(add_panels_kernel, grid, partial, out, columns, panels);
}

/// out.sums[s][column] = Σ over rows by sum s of the fold; +0 without rows.
template <class Fold>
void sum_columns(Context& context, const float* x, const float* other, const float* factors, int64_t rows,
                 int64_t columns, const ColumnOutputs& out) {
  constexpr int kTile = 32, kNarrow = 16, kEnough = 4;  // blocks a multiprocessor that need no narrow tiles
  const int64_t panels = ceil_div(rows, kPanel);
  if (panels == 0) {
    for (int s = 0; s < Fold::kSums; ++s) context.zero(out.sums[s], columns * static_cast<int64_t>(sizeof(float)));
    return;
  }
  float* partial = context.scratch<float>(Fold::kSums * panels * columns);
  const FoldSources sources{{x, other}, factors, rows, columns, panels};
  const auto launch = [&]<int kColumns>(std::integral_constant<int, kColumns>) {
    const auto kernel =
        columns % kUnit == 0 ? column_panels_kernel<Fold, kColumns, true> : column_panels_kernel<Fold, kColumns, false>;
    context.launch(kernel, Context::per_block(panels * ceil_div(columns, kColumns), kSumThreads), sources, partial);
  };
  if (panels * ceil_div(columns, kTile) < int64_t{kEnough} * context.multiprocessors())
    launch(std::integral_constant<int, kNarrow>());
  else
    launch(std::integral_constant<int, kTile>());
  add_panels(context, partial, out, Fold::kSums, columns, panels);
}

/// Elements themselves: acc = fl(acc + x).
struct ColumnElements {
  static constexpr int kMatrices = 1, kFactors = 0, kSums = 1;
  __device__ static float add(int, float acc, const float (&v)[kMatrices], const float*) { return acc + v[0]; }
};

}  // namespace fp4sim::gpu
