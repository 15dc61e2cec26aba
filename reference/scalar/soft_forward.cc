// The soft forward value of an estimator (numerics.md §5): x̂ from a sum of sigmoids of y instead of its code.
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/estimator.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/scale.h"

namespace fp4sim::scalar {

void kernels::soft_forward(const NodeCall& call) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* x = in_data<float>(call.in[0]);
  const Tensor& q = call.in[1];
  float* out = out_data<float>(call.out[0]);
  const QuantSpec& spec = q.type.spec;
  const ElementFormat format = element_of(q);
  const ScaleGrid grid = scale_grid(q.type);
  const MatrixView m = matrix_view(q.type.shape);
  const float d = tensor_scale(q);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col) {
        const int64_t i = (matrix * m.rows + row) * m.cols + col;
        const float scale = scale_value(q, is_unscaled(spec) ? 0 : scale_index(grid, matrix, row, col));
        const double y = std::isnan(scale) ? 0 : scaled_value(x[i], scale, d, spec);
        const float f = static_cast<float>(soft_value(y, estimator.beta, format));
        out[i] = is_unscaled(spec) ? f : f * scale;  // a NaN scale gives NaN
        if (has_tensor_scale(spec)) out[i] = out[i] * d;
      }
}

}  // namespace fp4sim::scalar
