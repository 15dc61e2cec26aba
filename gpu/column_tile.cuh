// How fused kernels walk a tensor whose scales run down the columns: a block of threads takes a tile of 32 rows and 128
// columns of one matrix; each of its four warps takes eight rows, each lane four neighbouring columns.
#pragma once

#include "gpu/map.cuh"
#include "gpu/packed_view.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

constexpr int kTileRows = 32, kTileCols = kWarp * kVector, kTileThreads = 128;
constexpr int kThreadRows = kTileRows / (kTileThreads / kWarp);

/// A tile and what of it this thread takes.
struct ColumnTile {
  int64_t matrix, tile_row;
  int64_t first_col;  // of the tile
  int64_t row, col;   // of this thread's elements, row in the matrix
  int rows;           // of this thread that exist, 0 … kThreadRows; 0 beyond the last column
};

__device__ inline ColumnTile column_tile(const Layout& l, int64_t block) {
  const int64_t across = (l.cols + kTileCols - 1) / kTileCols, down = (l.matrix_rows + kTileRows - 1) / kTileRows;
  const int64_t outer = quotient(block, across), matrix = quotient(outer, down), tile_row = outer - matrix * down;
  const int64_t first_col = (block - outer * across) * kTileCols;
  const int64_t row = tile_row * kTileRows + threadIdx.x / kWarp * kThreadRows;
  const int64_t col = first_col + threadIdx.x % kWarp * kVector;
  const int64_t left = col < l.cols && row < l.matrix_rows ? least(l.matrix_rows - row, kThreadRows) : 0;
  return {matrix, tile_row, first_col, row, col, static_cast<int>(left)};
}

/// The tiles of a tensor. Host only.
inline int64_t column_tiles(const Layout& l) {
  if (l.elements() == 0) return 0;
  return l.rows / l.matrix_rows * ceil_div(l.matrix_rows, kTileRows) * ceil_div(l.cols, kTileCols);
}

/// Index of a thread's first element in row r of its rows.
__device__ inline int64_t element_of(const ColumnTile& tile, const Layout& l, int r) {
  return (tile.matrix * l.matrix_rows + tile.row + r) * l.cols + tile.col;
}

/// The thread's elements; zeros where none exist.
__device__ inline void load_tile(const float* x, const ColumnTile& tile, const Layout& l, Four (&e)[kThreadRows]) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const float4 f =
        r < tile.rows ? *reinterpret_cast<const float4*>(x + element_of(tile, l, r)) : make_float4(0, 0, 0, 0);
    e[r] = {{f.x, f.y, f.z, f.w}};
  }
}

}  // namespace fp4sim::gpu
