// estimator_grad: dx = fl(dy·m(y)) for every element of a quantized tensor (numerics.md §5).
#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/estimator.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/scaled_values.h"

namespace fp4sim::scalar {

void kernels::estimator_grad(const NodeCall& call) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* dy = in_data<float>(call.in[0]);
  const float* x = in_data<float>(call.in[1]);
  const Tensor& q = call.in[2];
  float* dx = out_data<float>(call.out[0]);
  const ElementFormat format = element_of(q);
  for_each_scaled(x, q, stored_tensor_scales(x, q), [&](const ScaledElement& e) {
    const float g = dy[e.index];
    if (e.nonfinite) {
      dx[e.index] = g * 0.0f;
    } else if (estimator.kind == EstimatorKind::ewgs) {
      const float code_value = decode_code(load_code(code_row(q, e.row), e.col, format.bits), format);
      dx[e.index] = ewgs_gradient(g, e.y, code_value, estimator.delta);
    } else {
      dx[e.index] = g * estimator_multiplier(e.y, estimator, format);
    }
  });
}

}  // namespace fp4sim::scalar
