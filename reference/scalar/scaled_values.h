// y of every element of a quantized tensor: what encode, the estimators and the soft forward value share.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/scale.h"

namespace fp4sim::scalar {

/// One element of a packed tensor whose scales are written.
struct ScaledElement {
  int64_t index;   // row-major over the tensor
  int64_t row;     // row of codes, counted over all matrices
  int64_t col;     // code in the row
  int64_t block;   // index of the scale, 0 for unscaled specs
  float scale;     // decoded; 1 for unscaled specs
  bool nonfinite;  // in a block with NaN or Inf, whose scale is NaN
  double y;        // given to encode; 0 in nonfinite blocks
};

/// Calls visit(ScaledElement) for every element of x in row-major order, with the scales stored in q.
template <class Visit>
void for_each_scaled(const float* x, const Tensor& q, const TensorScales& tensor, const Visit& visit) {
  const QuantSpec& spec = q.type.spec;
  const ScaleGrid grid = scale_grid(q.type);
  const MatrixView m = matrix_view(q.type.shape);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col) {
        const int64_t code_row = matrix * m.rows + row;
        const int64_t index = code_row * m.cols + col;
        const int64_t block = is_unscaled(spec) ? 0 : scale_index(grid, matrix, row, col);
        const float scale = scale_value(q, block);
        const bool nonfinite = std::isnan(scale);
        const double y = nonfinite ? 0.0 : scaled_value(x[index], scale, tensor, spec);
        visit(ScaledElement{index, code_row, col, block, scale, nonfinite, y});
      }
}

/// The tensor scales behind a quantized x: d as stored, and A again from x, since profile `exact` computes y from A
/// and d does not determine it. S is not needed for y.
inline TensorScales stored_tensor_scales(const float* x, const Tensor& q) {
  TensorScales tensor{0, 1, tensor_scale(q)};
  if (q.type.spec.rule != ScaleRule::exact) return tensor;
  const ScaleGrid grid = scale_grid(q.type);
  const MatrixView m = matrix_view(q.type.shape);
  for (int64_t i = 0; i < element_count(q.type.shape); ++i) {
    const int64_t row = i / m.cols;
    const int64_t block = scale_index(grid, row / m.rows, row % m.rows, i % m.cols);
    if (!std::isnan(scale_value(q, block))) tensor.amax = std::max(tensor.amax, std::fabs(x[i]));
  }
  return tensor;
}

}  // namespace fp4sim::scalar
