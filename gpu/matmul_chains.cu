// 256 threads own a tile of 64×64 outputs, 4×4 each.
#include "gpu/arithmetic.cuh"
#include "gpu/matmul_chains.h"
#include "gpu/product_launch.h"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 16;
constexpr int kOwn = 4;
constexpr int kTile = kSide * kOwn;
constexpr int kSlice = 16;
constexpr int kLoads = kTile * kSlice / kThreads;

/// Stores kSlice k of kTile rows as [k][row]; what lies outside of the operand is zero.
__device__ void load_slice(const Operand& o, int64_t matrix, int64_t first_row, int64_t first_k,
                           float (*slice)[kTile]) {
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = o.k_stride == 1 ? item / kSlice : item % kTile, k = o.k_stride == 1 ? item % kSlice : item / kTile;
    const bool inside = first_row + row < o.rows && first_k + k < o.k;
    slice[k][row] = inside ? o.matrix(matrix)[(first_row + row) * o.row_stride + (first_k + k) * o.k_stride] : 0.0f;
  }
}

/// One value for each output of a thread.
struct Outputs {
  float v[kOwn][kOwn];

  __device__ void clear() {
#pragma unroll
    for (auto& row : v)
#pragma unroll
      for (float& e : row) e = 0.0f;
  }

  /// Adds the products of k in [first_k, end), ascending. All threads call it together.
  __device__ void add(const Operand& a, const Operand& b, const Tile& tile, int64_t first_k, int64_t end,
                      float (*slice_a)[kTile], float (*slice_b)[kTile]) {
    const int side_m = static_cast<int>(threadIdx.x) / kSide, side_n = static_cast<int>(threadIdx.x) % kSide;
    for (int64_t k = first_k; k < end; k += kSlice) {
      __syncthreads();
      load_slice(a, tile.matrix, tile.first_row, k, slice_a);
      load_slice(b, tile.matrix, tile.first_col, k, slice_b);
      __syncthreads();
      const int valid = static_cast<int>(least(kSlice, end - k));  // a product of zeros would turn −0 into +0
      for (int s = 0; s < valid; ++s)
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            v[i][j] = fma32(slice_a[s][side_m * kOwn + i], slice_b[s][side_n * kOwn + j], v[i][j]);
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    chains_kernel(Operand a, Operand b, OperandScales scales_a, OperandScales scales_b, int64_t block, TileGrid grid,
                  Epilogue epilogue) {
  __shared__ float slice_a[kSlice][kTile], slice_b[kSlice][kTile];
  const Tile tile = tile_at(grid, blockIdx.x, kTile, kTile);
  const int64_t row = tile.first_row + static_cast<int>(threadIdx.x) / kSide * kOwn;
  const int64_t col = tile.first_col + static_cast<int>(threadIdx.x) % kSide * kOwn;
  Outputs dot, acc;
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    acc.clear();
    const int64_t end = least((panel + 1) * kPanel, grid.k);
    for (int64_t k = panel * kPanel; k < end; k += block) {
      dot.clear();
      dot.add(a, b, tile, k, least(k + block, end), slice_a, slice_b);
      // Rows beyond the operands have scales too: zeros.
      const float* sa = scales_a.block(tile.matrix, quotient(k, block)) + row;
      const float* sb = scales_b.block(tile.matrix, quotient(k, block)) + col;
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) acc.v[i][j] = fma32(dot.v[i][j], sa[i] * sb[j], acc.v[i][j]);
    }
    for (int i = 0; i < kOwn; ++i)
      for (int j = 0; j < kOwn; ++j) store_panel(grid, epilogue, panel, tile.matrix, row + i, col + j, acc.v[i][j]);
  }
}

}  // namespace

void matmul_chains(const Operand& a, const Operand& b, const OperandScales& scales_a, const OperandScales& scales_b,
                   int64_t block, const Epilogue& epilogue, float* y, Context& context) {
  const TileGrid grid = tile_grid(a.matrices, a.rows, b.rows, a.k, kTile, kTile, y, context);
  context.launch(chains_kernel, Context::per_block(grid.tiles(), kThreads), a, b, scales_a, scales_b, block, grid,
                 epilogue);
  sum_panels(grid, epilogue, context);
}

}  // namespace fp4sim::gpu
