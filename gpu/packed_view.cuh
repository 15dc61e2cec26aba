// A packed tensor as kernels see it: rows of codes, the grid of scales, and the addresses of its parts.
#pragma once

#include "gpu/launch.h"
#include "gpu/packing.cuh"
#include "gpu/scale.cuh"

namespace fp4sim::gpu {

/// Rows of all matrices in one count, the grid of scales over them (§4.4) and the bytes of a row of codes.
struct Layout {
  int64_t rows, cols;   // rows over all matrices
  int64_t matrix_rows;  // rows that the grid of one scale matrix covers
  int64_t grid_rows, grid_cols, row_step, col_step;
  int64_t row_bytes;
  int64_t groups;  // of eight codes in a row, the last maybe short
  int64_t blocks;  // number of scales

  /// Index of the scale of an element; 0 for unscaled specs.
  FP4SIM_HD int64_t block_of(int64_t row, int64_t col) const {
    const int64_t matrix = quotient(row, matrix_rows), inside = row - matrix * matrix_rows;
    return (matrix * grid_rows + quotient(inside, row_step)) * grid_cols + quotient(col, col_step);
  }
  FP4SIM_HD int64_t elements() const { return rows * cols; }
};

/// True if one scale, or none, serves all matrices: their rows count as those of one.
inline bool spec_joins_matrices(const QuantSpec& spec) {
  return spec.granularity == Granularity::tensor || is_unscaled(spec);
}
inline int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

/// The layout of a packed value. Host only.
inline Layout layout_of(const ValueType& packed) {
  const MatrixView m = matrix_view(packed.shape);
  const ScaleGrid grid = scale_grid(packed);
  const int64_t rows = m.matrices * m.rows;
  const int64_t row_bytes = code_row_bytes(packed), groups = ceil_div(m.cols, kGroupCodes);
  if (spec_joins_matrices(packed.spec))
    return {rows,      m.cols, at_least_one(rows), 1, 1, at_least_one(rows), at_least_one(m.cols),
            row_bytes, groups, grid.count()};
  return {rows,      m.cols, at_least_one(m.rows), grid.rows, grid.cols, grid.row_step, grid.col_step,
          row_bytes, groups, grid.count()};
}

/// Device addresses and facts of a packed tensor that is read.
struct PackedView {
  const uint8_t* codes;
  const void* scales;         // bytes or binary32; nullptr: unscaled
  const float* tensor_scale;  // nullptr: none
  const int32_t* bias;        // nullptr: the format's own
  Quantizer quantizer;
  Layout layout;

  FP4SIM_HD ElementFormat element() const {
    return bias != nullptr ? with_bias(quantizer.element, *bias) : quantizer.element;
  }
  /// The scale of a block in binary32; 1 for unscaled specs.
  FP4SIM_HD float scale_at(int64_t block) const {
    if (scales == nullptr) return 1.0f;
    if (quantizer.scale == ScaleFormat::fp32) return static_cast<const float*>(scales)[block];
    return decode_scale(static_cast<const uint8_t*>(scales)[block], quantizer);
  }
  FP4SIM_HD const uint8_t* row(int64_t r) const { return codes + r * layout.row_bytes; }
};

/// The view of a packed tensor. Host only.
inline PackedView view_of(const Tensor& t) {
  const QuantSpec& spec = t.type.spec;
  const auto part = [&](int i, bool exists) { return exists ? device_data(t.parts[i]) : nullptr; };
  return {reinterpret_cast<const uint8_t*>(part(0, true)),
          part(1, !is_unscaled(spec)),
          reinterpret_cast<const float*>(part(2, has_tensor_scale(spec))),
          reinterpret_cast<const int32_t*>(part(1, spec.element.bias_auto)),
          quantizer_of(spec),
          layout_of(t.type)};
}

}  // namespace fp4sim::gpu
