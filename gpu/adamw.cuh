// One AdamW update (numerics.md §9) of one element; the step's constants are computed by every thread from the same
// words, since the learning rate and the powers are data on the device.
#pragma once

#include "gpu/arithmetic.cuh"
#include "reference/contract/step_info.h"

namespace fp4sim::gpu {

/// The attributes of the op in the precision in which they are used.
struct AdamwConstants {
  float beta1, beta2;    // β
  float gamma1, gamma2;  // 1 − β, taken in binary64
  float weight_decay, eps;
};

struct AdamwStep {
  float keep;  // 1 − lr·wd
  float a, r;  // lr/(1 − P1), sqrt(1 − P2)
};

FP4SIM_HD AdamwStep adamw_step(const AdamwConstants& c, double lr, double beta1_power, double beta2_power) {
  const float decay = static_cast<float>(lr) * c.weight_decay;
  return {1.0f - decay, static_cast<float>(lr / (1.0 - beta1_power)), static_cast<float>(sqrt64(1.0 - beta2_power))};
}

FP4SIM_HD void adamw_update(const AdamwConstants& c, const AdamwStep& s, float g, float& p, float& m, float& v) {
  const float kept = p * s.keep;
  m = c.beta1 * m + c.gamma1 * g;
  v = c.beta2 * v + c.gamma2 * (g * g);
  p = kept - s.a * (m / ((sqrt32(v) / s.r) + c.eps));
}

}  // namespace fp4sim::gpu
