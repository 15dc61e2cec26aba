// The soft forward value of an estimator (numerics.md §5): x̂ from a sum of sigmoids of y instead of its code.
#include "reference/contract/host_backend.h"
#include "reference/scalar/estimator.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/scaled_values.h"

namespace fp4sim::scalar {

void kernels::soft_forward(const NodeCall& call) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* x = in_data<float>(call.in[0]);
  const Tensor& q = call.in[1];
  float* out = out_data<float>(call.out[0]);
  const QuantSpec& spec = q.type.spec;
  const ElementFormat format = element_of(q);
  const TensorScales tensor = stored_tensor_scales(x, q);
  for_each_scaled(x, q, tensor, [&](const ScaledElement& e) {
    float value = static_cast<float>(soft_value(e.y, estimator.beta, format));
    if (!is_unscaled(spec)) value = value * e.scale;  // a NaN scale gives NaN
    if (has_tensor_scale(spec)) value = value * tensor.decode;
    out[e.index] = value;
  });
}

}  // namespace fp4sim::scalar
