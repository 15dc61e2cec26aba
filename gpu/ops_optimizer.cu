// clip and adamw: element-wise, with what varies between steps read on the device.
#include "gpu/adamw.cuh"
#include "gpu/map.cuh"
#include "gpu/ops.h"

namespace fp4sim::gpu::ops {
namespace {

__global__ void clip_kernel(const float* g, const float* norm, const StepInfo* step, float* y, int64_t n) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  const float unscale = 1.0f / step->loss_scale;
  const float f = *norm > step->clip_norm ? step->clip_norm / *norm : 1.0f;
  Four r = load_four(g, i, n);
  for (float& v : r.v) v = (v * unscale) * f;
  store_four(y, i, n, r);
}

__global__ void adamw_kernel(float* p, float* m, float* v, const float* g, const StepInfo* step, int64_t n,
                             AdamwConstants constants) {
  const int64_t i = thread_index() * kVector;
  if (i >= n || step->skip != 0) return;
  const AdamwStep s = adamw_step(constants, step->lr, step->beta1_power, step->beta2_power);
  Four ps = load_four(p, i, n), ms = load_four(m, i, n), vs = load_four(v, i, n);
  const Four gs = load_four(g, i, n);
  for (int k = 0; k < kVector; ++k) adamw_update(constants, s, gs.v[k], ps.v[k], ms.v[k], vs.v[k]);
  store_four(p, i, n, ps);
  store_four(m, i, n, ms);
  store_four(v, i, n, vs);
}

}  // namespace

void clip(const NodeCall& call, Context& context) {
  const int64_t n = count_in(call, 0);
  context.launch(clip_kernel, context.per_item(ceil_div(n, kVector)), in_data<float>(call, 0), in_data<float>(call, 1),
                 in_data<StepInfo>(call, 2), out_data<float>(call), n);
}

void adamw(const NodeCall& call, Context& context) {
  const Attrs& attrs = call.node.attrs;
  const double beta1 = attrs.number("beta1"), beta2 = attrs.number("beta2");
  const AdamwConstants constants{static_cast<float>(beta1),
                                 static_cast<float>(beta2),
                                 static_cast<float>(1.0 - beta1),
                                 static_cast<float>(1.0 - beta2),
                                 static_cast<float>(attrs.number("weight_decay")),
                                 static_cast<float>(attrs.number("eps"))};
  const int64_t n = count_out(call);
  context.launch(adamw_kernel, context.per_item(ceil_div(n, kVector)), out_data<float>(call, 0),
                 out_data<float>(call, 1), out_data<float>(call, 2), in_data<float>(call, 3),
                 in_data<StepInfo>(call, 4), n, constants);
}

}  // namespace fp4sim::gpu::ops
