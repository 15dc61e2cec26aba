// estimator_grad and soft_forward (numerics.md §5): y is computed again from x and the stored scales, as in quantize.
#include "gpu/block_maxima.h"
#include "gpu/estimator.cuh"
#include "gpu/map.cuh"
#include "gpu/ops.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kDgeThreads = 128;

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

/// True for dge of e2m1 with scales that four neighbours of a row share, and rows of a multiple of 4 elements.
bool is_plain_dge(const Estimator& e, const PackedView& q) {
  const bool scaled = q.quantizer.scale == ScaleFormat::e8m0 || q.quantizer.scale == ScaleFormat::fp32;
  return e.kind == EstimatorKind::dge && q.quantizer.element == kE2m1 && scaled && !q.quantizer.sr34 &&
         q.layout.cols % kVector == 0 && (q.layout.col_step % kVector == 0 || q.layout.col_step >= q.layout.cols);
}

/// Four neighbours of an is_plain_dge. `power`: 1/k − 1 in binary64.
__global__ void dge_gradients(const float4* dy, const float4* x, PackedView q, Estimator estimator, double power,
                              float4* dx) {
  const int64_t four = thread_number(), per_row = q.layout.cols / kVector;
  if (four * kVector >= q.layout.elements()) return;
  const Four g = four_of(dy[four]), v = four_of(x[four]);
  const int64_t row = quotient(four, per_row);
  const float scale = q.scale_at(q.layout.block_of(row, (four - row * per_row) * kVector));
  const bool nonfinite = magnitude_bits(scale) > kF32Inf;
  float result[kVector];
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const double y = nonfinite ? 0.0 : scaled_value(v.v[k], scale, TensorScales{}, q.quantizer);
    const bool inside = !nonfinite && magnitude(y) <= 6.0;
    result[k] = g.v[k] * (inside ? static_cast<float>(dge_multiplier_e2m1(y, estimator, power)) : 0.0f);
  }
  dx[four] = make_float4(result[0], result[1], result[2], result[3]);
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
  if (is_plain_dge(estimator, q))
    return context.launch(dge_gradients,
                          Context::per_block(ceil_div(q.layout.elements() / kVector, kDgeThreads), kDgeThreads),
                          reinterpret_cast<const float4*>(in_data<float>(call, 0)), reinterpret_cast<const float4*>(x),
                          q, estimator, 1.0 / estimator.k - 1.0, reinterpret_cast<float4*>(out_data<float>(call)));
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
