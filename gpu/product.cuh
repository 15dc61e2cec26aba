// What the kernels of a matrix product share: operands, what happens to finished outputs, tiles and panels
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

/// Where the outputs of a product (matrices, m, n) lie in y: one after the other, or as a permute that follows wants
/// them. Each of the three axes may be two axes of the permute: an outer one, and an inner one of so many values. The
/// inner columns are neighbours, a multiple of 4 of them. Indices are below 2^32.
struct OutputPlaces {
  bool plain = true;
  uint32_t inner_matrices = 1, inner_rows = 1, inner_cols = 4;  // from here on only where not plain
  int64_t outer_matrix = 0, inner_matrix = 0;                   // distances of neighbours
  int64_t outer_row = 0, inner_row = 0;
  int64_t outer_col = 0;

  /// The place of an output is the sum of these three.
  FP4SIM_HD int64_t of_matrix(int64_t matrix, int64_t m, int64_t n) const {
    return plain ? matrix * m * n : split(matrix, inner_matrices, outer_matrix, inner_matrix);
  }
  FP4SIM_HD int64_t of_row(int64_t row, int64_t n) const {
    return plain ? row * n : split(row, inner_rows, outer_row, inner_row);
  }
  FP4SIM_HD int64_t of_col(int64_t col) const { return plain ? col : split(col, inner_cols, outer_col, 1); }

 private:
  FP4SIM_HD static int64_t split(int64_t index, uint32_t inner, int64_t outer_step, int64_t inner_step) {
    const auto i = static_cast<uint32_t>(index);
    const uint32_t outer = i / inner;
    return outer * outer_step + (i - outer * inner) * inner_step;
  }
};

constexpr int kMostGrouped = 3;  // products of one shape that share launches

/// Where the outputs of each product of a group go, and their biases.
struct GroupOutputs {
  float* y[kMostGrouped];
  const float* bias[kMostGrouped];
};

/// What is done to a finished product, each where it exists: one scale a vector, the tensor scales, the factor of sr34,
/// the sum with a bias; and where it goes.
struct Epilogue {
  OperandScales scales_a, scales_b;  // data nullptr: none
  const float* d_a;                  // nullptr: none
  const float* d_b;
  float factor;                 // 1: none
  const float* bias = nullptr;  // [n], nullptr: none
  OutputPlaces places = {};
  bool grouped = false;  // the matrices are products of a group
  GroupOutputs group = {};

  FP4SIM_HD const float* bias_of(int64_t matrix) const { return grouped ? group.bias[matrix] : bias; }
  /// The first output of a matrix of m × n; y: of the product.
  FP4SIM_HD float* matrix_of(float* y, int64_t matrix, int64_t m, int64_t n) const {
    return grouped ? group.y[matrix] : y + places.of_matrix(matrix, m, n);
  }
  /// True if a finished product stays as it is.
  FP4SIM_HD bool empty() const {
    return scales_a.data == nullptr && d_a == nullptr && d_b == nullptr && factor == 1.0f && bias == nullptr &&
           !grouped;
  }
  /// `scaled`: whether the scales of vectors are not yet in v.
  FP4SIM_HD float operator()(float v, int64_t matrix, int64_t i, int64_t j, bool scaled = true) const {
    if (scaled && scales_a.data != nullptr) v = v * (scales_a.block(matrix, 0)[i] * scales_b.block(matrix, 0)[j]);
    if (d_a != nullptr) v = v * *d_a;
    if (d_b != nullptr) v = v * *d_b;
    if (factor != 1.0f) v = v * factor;
    const float* const added = bias_of(matrix);
    return added == nullptr ? v : v + added[j];
  }
};

/// The product as a grid of output tiles, maybe with its panels of kPanel k in different blocks of threads.
struct TileGrid {
  int64_t matrices, m, n, k;
  int64_t tiles_m, tiles_n;
  int64_t panels;           // of k
  bool split;               // each part of the panels is a tile of its own, its result goes to `partial`
  float* y;                 // (matrices, m, n), the outputs at their places
  float* partial;           // (parts, matrices, m, n)
  int64_t part_panels = 1;  // more than one only where no sum is rounded, so that the panels may be joined

  FP4SIM_HD int64_t parts() const { return split ? quotient(panels + part_panels - 1, part_panels) : 1; }
  /// Below 2^31: no memory holds more.
  FP4SIM_HD int64_t tiles() const { return matrices * tiles_m * tiles_n * parts(); }
};

/// One tile: where it lies, which panels it computes, and which part of a split grid they are.
struct Tile {
  int64_t matrix, first_row, first_col;
  int64_t first_panel, last_panel;
  int64_t part;
};

constexpr uint32_t kTileGroup = 8;  // rows of tiles that follow each other, so that they share columns in the cache

/// Tile number `number` of a grid, of tile_m × tile_n outputs.
FP4SIM_HD Tile tile_at(const TileGrid& g, int64_t number, int tile_m, int tile_n) {
  const auto tiles_m = static_cast<uint32_t>(g.tiles_m), tiles_n = static_cast<uint32_t>(g.tiles_n);
  const auto matrices = static_cast<uint32_t>(g.matrices), n = static_cast<uint32_t>(number);
  const uint32_t area = tiles_m * tiles_n, outer = n / area, inside = n - outer * area;
  const uint32_t part = outer / matrices, matrix = outer - part * matrices;
  const uint32_t first_m = inside / (kTileGroup * tiles_n) * kTileGroup;
  const uint32_t height = tiles_m - first_m < kTileGroup ? tiles_m - first_m : kTileGroup;
  const uint32_t in_group = inside - first_m * tiles_n, tile_col = in_group / height;
  const uint32_t tile_row = first_m + in_group - tile_col * height;
  const int64_t panel = part * g.part_panels;
  return {matrix,
          int64_t{tile_row} * tile_m,
          int64_t{tile_col} * tile_n,
          panel,
          g.split ? least(panel + g.part_panels, g.panels) : g.panels,
          part};
}

/// Stores one output of a panel. Panels of one tile are added in ascending order by the thread that owns the output;
/// a split panel (parts are single panels here) goes to its place in `partial`, and sum_panels finishes.
FP4SIM_HD void store_panel(const TileGrid& g, const Epilogue& epilogue, int64_t panel, int64_t matrix, int64_t i,
                           int64_t j, float v, bool scaled = true) {
  if (i >= g.m || j >= g.n) return;
  if (g.split) {
    g.partial[((panel * g.matrices + matrix) * g.m + i) * g.n + j] = v;
    return;
  }
  float& y = epilogue.matrix_of(g.y, matrix, g.m, g.n)[epilogue.places.of_row(i, g.n) + epilogue.places.of_col(j)];
  if (panel > 0) v = y + v;
  y = panel == g.panels - 1 ? epilogue(v, matrix, i, j, scaled) : v;
}

}  // namespace fp4sim::gpu
