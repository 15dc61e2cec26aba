// What the kernels of a matrix product share: operands, the finished product's factors, tiles and panels
// (numerics.md §7). y (matrices, m, n) is row-major; m counts rows of a, n rows of b.
#pragma once

#include "gpu/bits.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {

/// Matrices of rows along k: one of both strides is 1.
template <class T>
struct RowsOf {
  const T* data;
  int64_t matrices, rows, k;
  int64_t row_stride, k_stride;

  FP4SIM_HD const T* matrix(int64_t i) const { return data + i * rows * k; }
  /// True where loads of four neighbours along the contiguous direction are aligned in every row.
  FP4SIM_HD bool aligned() const { return (k_stride == 1 ? k : rows) % 4 == 0; }
};
using Operand = RowsOf<float>;
using Bf16Operand = RowsOf<uint16_t>;

/// The scales of an operand, binary32: [matrix][block of k][row], rows padded to `pitch`.
struct OperandScales {
  const float* data;
  int64_t blocks, pitch;

  FP4SIM_HD const float* block(int64_t matrix, int64_t number) const {
    return data + (matrix * blocks + number) * pitch;
  }
};

/// What is done to a finished product: one scale a vector, the tensor scales, the factor of sr34; each where it exists.
struct Epilogue {
  OperandScales scales_a, scales_b;  // data nullptr: none
  const float* d_a;                  // nullptr: none
  const float* d_b;
  float factor;  // 1: none

  /// True if a finished product stays as it is.
  FP4SIM_HD bool empty() const {
    return scales_a.data == nullptr && d_a == nullptr && d_b == nullptr && factor == 1.0f;
  }
  FP4SIM_HD float operator()(float v, int64_t matrix, int64_t i, int64_t j) const {
    if (scales_a.data != nullptr) v = v * (scales_a.block(matrix, 0)[i] * scales_b.block(matrix, 0)[j]);
    if (d_a != nullptr) v = v * *d_a;
    if (d_b != nullptr) v = v * *d_b;
    return factor == 1.0f ? v : v * factor;
  }
};

/// The product as a grid of output tiles, maybe with its panels of kPanel k in different blocks of threads.
struct TileGrid {
  int64_t matrices, m, n, k;
  int64_t tiles_m, tiles_n;
  int64_t panels;           // of k
  bool split;               // each part of the panels is a tile of its own, its result goes to `partial`
  float* y;                 // (matrices, m, n)
  float* partial;           // (parts, matrices, m, n)
  int64_t part_panels = 1;  // more than one only where no sum is rounded, so that the panels may be joined

  FP4SIM_HD int64_t parts() const { return split ? quotient(panels + part_panels - 1, part_panels) : 1; }
  FP4SIM_HD int64_t tiles() const { return matrices * tiles_m * tiles_n * parts(); }
};

/// One tile: where it lies, which panels it computes, and which part of a split grid they are.
struct Tile {
  int64_t matrix, first_row, first_col;
  int64_t first_panel, last_panel;
  int64_t part;
};

constexpr int64_t kTileGroup = 8;  // rows of tiles that follow each other, so that they share columns in the cache

/// Tile number `number` of a grid, of tile_m × tile_n outputs.
FP4SIM_HD Tile tile_at(const TileGrid& g, int64_t number, int tile_m, int tile_n) {
  const int64_t area = g.tiles_m * g.tiles_n, outer = quotient(number, area), inside = number - outer * area;
  const int64_t part = quotient(outer, g.matrices), matrix = outer - part * g.matrices, panel = part * g.part_panels;
  const int64_t group = quotient(inside, kTileGroup * g.tiles_n), first_m = group * kTileGroup;
  const int64_t height = least(kTileGroup, g.tiles_m - first_m), in_group = inside - first_m * g.tiles_n;
  const int64_t tile_col = quotient(in_group, height), tile_row = first_m + in_group - tile_col * height;
  return {
      matrix, tile_row * tile_m, tile_col * tile_n, panel, g.split ? least(panel + g.part_panels, g.panels) : g.panels,
      part};
}

/// Stores one output of a panel. Panels of one tile are added in ascending order by the thread that owns the output;
/// a split panel (parts are single panels here) goes to its place in `partial`, and sum_panels finishes.
FP4SIM_HD void store_panel(const TileGrid& g, const Epilogue& epilogue, int64_t panel, int64_t matrix, int64_t i,
                           int64_t j, float v) {
  if (i >= g.m || j >= g.n) return;
  const int64_t at = (matrix * g.m + i) * g.n + j;
  if (g.split) {
    g.partial[panel * g.matrices * g.m * g.n + at] = v;
    return;
  }
  if (panel > 0) v = g.y[at] + v;
  g.y[at] = panel == g.panels - 1 ? epilogue(v, matrix, i, j) : v;
}

}  // namespace fp4sim::gpu
