// estimator_grad and soft_forward (numerics.md §5): y is computed again from x and the stored scales, as in quantize.
#include "gpu/block_maxima.h"
#include "gpu/estimator.cuh"
#include "gpu/ops.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

/// What a thread knows of its element.
struct ScaledElement {
  int64_t row, col;
  float scale;
  bool nonfinite;
  double y;  // 0 in a nonfinite block
};

/// `amax`: A as bits, read by profile exact alone, whose y depends on it.
__device__ ScaledElement element_at(int64_t i, const float* x, const PackedView& q, const uint32_t* amax) {
  const int64_t row = quotient(i, q.layout.cols), col = i - row * q.layout.cols;
  TensorScales t;
  if (amax != nullptr) t.amax = float_of(*amax);
  if (q.tensor_scale != nullptr) t.decode = *q.tensor_scale;
  const float scale = q.scale_at(q.layout.block_of(row, col));
  const bool nonfinite = magnitude_bits(scale) > kF32Inf;
  return {row, col, scale, nonfinite, nonfinite ? 0.0 : scaled_value(x[i], scale, t, q.quantizer)};
}

__global__ void gradients(const float* dy, const float* x, PackedView q, const uint32_t* amax, Estimator estimator,
                          float* dx) {
  const int64_t i = thread_number();
  if (i >= q.layout.elements()) return;
  const ScaledElement e = element_at(i, x, q, amax);
  const float g = dy[i];
  if (e.nonfinite) {
    dx[i] = g * 0.0f;
  } else if (estimator.kind == EstimatorKind::ewgs) {
    const ElementFormat f = q.element();
    dx[i] = ewgs_gradient(g, e.y, decode(load_code(q.row(e.row), e.col, f.bits), f), estimator.delta);
  } else {
    dx[i] = g * estimator_multiplier(e.y, estimator, q.element());
  }
}

__global__ void soft_values(const float* x, PackedView q, const uint32_t* amax, double beta, float* out) {
  const int64_t i = thread_number();
  if (i >= q.layout.elements()) return;
  const ScaledElement e = element_at(i, x, q, amax);
  float value = static_cast<float>(soft_value(e.y, beta, q.element()));
  if (q.scales != nullptr) value = value * e.scale;  // NaN in a nonfinite block
  if (q.tensor_scale != nullptr) value = value * *q.tensor_scale;
  out[i] = value;
}

/// A of a tensor under profile exact, found again from x; nullptr for the other specs.
uint32_t* exact_amax(const float* x, const PackedView& q, Context& context) {
  if (q.quantizer.rule != ScaleRule::exact) return nullptr;
  auto* amax = context.scratch<uint32_t>(1);
  scaled_amax(x, q, amax, context);
  return amax;
}

}  // namespace

void ops::estimator_grad(const NodeCall& call, Context& context) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* x = in_data<float>(call, 1);
  const PackedView q = view_of(call.in[2]);
  const uint32_t* amax = exact_amax(x, q, context);
  context.launch(gradients, context.per_item(q.layout.elements()), in_data<float>(call, 0), x, q, amax, estimator,
                 out_data<float>(call));
}

void ops::soft_forward(const NodeCall& call, Context& context) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* x = in_data<float>(call, 0);
  const PackedView q = view_of(call.in[1]);
  const uint32_t* amax = exact_amax(x, q, context);
  context.launch(soft_values, context.per_item(q.layout.elements()), x, q, amax, estimator.beta, out_data<float>(call));
}

}  // namespace fp4sim::gpu
