// estimator_grad and soft_forward of the simd backend (numerics.md §5): y again from x and the stored scales.
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/block_amax.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_plan.h"
#include "reference/simd/quant_walk.h"

namespace fp4sim::simd {
namespace {

/// The scales that x was quantized with. Profile `exact` computes y from A, which d does not determine: A of x again.
ScalePlan scale_plan_of(const float* x, const Tensor& q, const Context& context) {
  ScalePlan plan = stored_scale_plan(q.type.spec, q);
  if (q.type.spec.rule == ScaleRule::exact) plan.amax = finite_amax(block_amax(x, q.type, context));
  return plan;
}

}  // namespace

void ops::estimator_grad(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[2];
  const QuantSpec& spec = q.type.spec;
  const ElementFormat format = element_of(q);
  const float *dy = in_data<float>(call.in[0]), *x = in_data<float>(call.in[1]);
  float* dx = out_data<float>(call.out[0]);
  const ScalePlan scales = scale_plan_of(x, q, context);
  const ValuePlan value = make_value_plan(spec, format, scales);
  const EstimatorTables tables(parse_estimator(call.node.attrs.text("estimator")), format);
  const EstimatorKernels& kernels = pick_estimator_kernels(context.level);
  if (tables.plan.kind != EstimatorKind::ewgs)
    return for_segments(q, scales, kEncodeFactors, context, [&](const Segment& s) {
      kernels.gradient(tables.plan, value, dy + s.begin, x + s.begin, s.n, s.encode, dx + s.begin);
    });
  const CodeValues table(format);
  const Codec codec = decode_codec(spec, format, table);
  const auto* codes = in_data<uint8_t>(q);
  const DecodeKernels& decode = pick_decode_kernels(context.level);
  for_segments(q, scales, kEncodeFactors, context, [&](const Segment& s) {
    std::vector<float> values(static_cast<size_t>(s.n));
    decode.decode(codec, codes + s.codes, s.n, {nullptr, kOneBlock}, nullptr, values.data());
    kernels.ewgs(tables.plan, value, dy + s.begin, x + s.begin, values.data(), s.n, s.encode, dx + s.begin);
  });
}

void ops::soft_forward(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[1];
  const QuantSpec& spec = q.type.spec;
  const ElementFormat format = element_of(q);
  const float* x = in_data<float>(call.in[0]);
  float* out = out_data<float>(call.out[0]);
  const ScalePlan scales = scale_plan_of(x, q, context);
  const ValuePlan value = make_value_plan(spec, format, scales);
  const EstimatorTables tables(parse_estimator(call.node.attrs.text("estimator")), format);
  const EstimatorKernels& kernels = pick_estimator_kernels(context.level);
  const float* d = has_tensor_scale(spec) ? &scales.d : nullptr;
  for_segments(q, scales, kEncodeFactors | kDecodeFactors, context, [&](const Segment& s) {
    kernels.soft_forward(tables.plan, value, x + s.begin, s.n, s.encode, s.decode, d, out + s.begin);
  });
}

}  // namespace fp4sim::simd
