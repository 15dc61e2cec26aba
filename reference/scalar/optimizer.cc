// norm, clip and adamw (numerics.md §9).
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {
namespace {

/// The constants of one AdamW step in binary32, from the parsed binary64 attributes and the step.
struct AdamwStep {
  float beta1, beta2;    // β
  float gamma1, gamma2;  // 1 − β, taken in binary64
  float keep;            // 1 − lr·wd
  float eps, a, r;       // a = lr/(1 − P1), r = sqrt(1 − P2)
};

AdamwStep adamw_step(const Attrs& attrs, const StepInfo& step) {
  const double beta1 = attrs.number("beta1"), beta2 = attrs.number("beta2");
  const auto lr = static_cast<float>(step.lr), weight_decay = static_cast<float>(attrs.number("weight_decay"));
  const float decay = lr * weight_decay;
  return {.beta1 = static_cast<float>(beta1),
          .beta2 = static_cast<float>(beta2),
          .gamma1 = static_cast<float>(1.0 - beta1),
          .gamma2 = static_cast<float>(1.0 - beta2),
          .keep = 1.0f - decay,
          .eps = static_cast<float>(attrs.number("eps")),
          .a = static_cast<float>(step.lr / (1.0 - step.beta1_power)),
          .r = static_cast<float>(std::sqrt(1.0 - step.beta2_power))};
}

void update(const AdamwStep& s, float g, float& p, float& m, float& v) {
  p = p * s.keep;
  m = s.beta1 * m + s.gamma1 * g;
  v = s.beta2 * v + s.gamma2 * (g * g);
  p = p - s.a * (m / ((std::sqrt(v) / s.r) + s.eps));
}

}  // namespace

void norm(const NodeCall& call) {
  float acc = 0.0f;
  for (const Tensor& g : call.in) {
    const float* x = in_data<float>(g);
    acc = acc + rowsum_products(x, x, element_count(g.type.shape));
  }
  *out_data<float>(call.out[0]) = std::sqrt(acc);
}

void clip(const NodeCall& call) {
  const StepInfo& step = *in_data<StepInfo>(call.in[2]);
  const float norm = *in_data<float>(call.in[1]);
  const float f = norm > step.clip_norm ? step.clip_norm / norm : 1.0f;
  const float unscale = 1.0f / step.loss_scale;
  const float* g = in_data<float>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.in[0].type.shape);
  for (int64_t i = 0; i < n; ++i) y[i] = (g[i] * unscale) * f;
}

void adamw(const NodeCall& call) {
  const StepInfo& step = *in_data<StepInfo>(call.in[4]);
  if (step.skip != 0) return;
  const AdamwStep s = adamw_step(call.node.attrs, step);
  const float* g = in_data<float>(call.in[3]);
  float *p = out_data<float>(call.out[0]), *m = out_data<float>(call.out[1]), *v = out_data<float>(call.out[2]);
  const int64_t n = element_count(call.out[0].type.shape);
  for (int64_t i = 0; i < n; ++i) update(s, g[i], p[i], m[i], v[i]);
}

}  // namespace fp4sim::scalar::kernels
