// silu and gelu with their slopes in binary64, in op.def's order; each op rounds once to binary32.
#pragma once

#include "gpu/elementary.cuh"

namespace fp4sim::gpu {

FP4SIM_HD float silu_value(float value) {
  const double x = value;
  return static_cast<float>(x / (1.0 + exp64(-x)));
}

FP4SIM_HD float silu_slope(float value) {
  const double x = value;
  const double sigma = 1.0 / (1.0 + exp64(-x));
  return static_cast<float>(sigma * (1.0 + x * (1.0 - sigma)));
}

/// u of gelu(x) ≈ x·σ(2u).
FP4SIM_HD double gelu_argument(double x) { return kSqrt2OverPi * (x + kGeluCubic * ((x * x) * x)); }

FP4SIM_HD float gelu_value(float value) {
  const double x = value;
  return static_cast<float>(x / (1.0 + exp64(-2.0 * gelu_argument(x))));
}

FP4SIM_HD float gelu_slope(float value) {
  const double x = value;
  const double sigma = 1.0 / (1.0 + exp64(-2.0 * gelu_argument(x)));
  const double du = kSqrt2OverPi * (1.0 + (3.0 * kGeluCubic) * (x * x));
  return static_cast<float>(sigma + ((2.0 * x) * (sigma * (1.0 - sigma))) * du);
}

}  // namespace fp4sim::gpu
