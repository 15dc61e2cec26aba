// silu and gelu with their slopes in binary64, in op.def's order; each op rounds once to binary32. Arguments of usual
// size take the quick way (quick.cuh).
#pragma once

#include "gpu/elementary.cuh"

namespace fp4sim::gpu {

/// The slope σ + (2x·u′)·(σ·(1 − σ)) of x·σ(z), from σ and `bend` = 2x·u′. The terms cancel near the slope's zero: what
/// it loses there, its error grows. `sure` tells whether the value rounds as the specified one.
struct QuickSlope {
  float value;
  bool sure;
};
FP4SIM_HD QuickSlope quick_slope(const Logistic& s, double bend) {
  const double slope = fma64(s.of * s.rest, bend, s.of);
  const int lost = exponent_field(s.of) - exponent_field(slope);
  const int k = lost < -1 ? 1 : lost + 2;
  return {static_cast<float>(slope), k <= 11 && rounds_surely(slope, k)};
}

constexpr float kSiluQuick = 64.0f;  // |x| of the quick way: e^−x is far from the ends of binary64 and binary32

FP4SIM_HD float silu_value(float value) {
  const double x = value;
  if (value >= -kSiluQuick && value <= kSiluQuick) {
    const double quick = x * quick_logistic(x).of;
    if (rounds_surely(quick, 0)) return static_cast<float>(quick);
  }
  return static_cast<float>(x / (1.0 + exp64(-x)));
}

FP4SIM_HD float silu_slope(float value) {
  const double x = value;
  if (value >= -kSiluQuick && value <= kSiluQuick) {
    const QuickSlope quick = quick_slope(quick_logistic(x), x);
    if (quick.sure) return quick.value;
  }
  const double sigma = 1.0 / (1.0 + exp64(-x));
  return static_cast<float>(sigma * (1.0 + x * (1.0 - sigma)));
}

/// u of gelu(x) ≈ x·σ(2u).
FP4SIM_HD double gelu_argument(double x) { return kSqrt2OverPi * (x + kGeluCubic * ((x * x) * x)); }

constexpr float kGeluQuick = 8.0f;  // |2u| < 50
constexpr double kTwiceScale = 2 * kSqrt2OverPi, kTwiceCubic = 2 * kSqrt2OverPi * kGeluCubic;

FP4SIM_HD float gelu_value(float value) {
  const double x = value;
  if (value >= -kGeluQuick && value <= kGeluQuick) {
    const double quick = x * quick_logistic(x * fma64(kTwiceCubic, x * x, kTwiceScale)).of;
    if (rounds_surely(quick, 0)) return static_cast<float>(quick);
  }
  return static_cast<float>(x / (1.0 + exp64(-2.0 * gelu_argument(x))));
}

FP4SIM_HD float gelu_slope(float value) {
  const double x = value;
  if (value >= -kGeluQuick && value <= kGeluQuick) {
    const double square = x * x;
    const double bend = x * fma64(3.0 * kTwiceCubic, square, kTwiceScale);
    const QuickSlope quick = quick_slope(quick_logistic(x * fma64(kTwiceCubic, square, kTwiceScale)), bend);
    if (quick.sure) return quick.value;
  }
  const double sigma = 1.0 / (1.0 + exp64(-2.0 * gelu_argument(x)));
  const double du = kSqrt2OverPi * (1.0 + (3.0 * kGeluCubic) * (x * x));
  return static_cast<float>(sigma + ((2.0 * x) * (sigma * (1.0 - sigma))) * du);
}

}  // namespace fp4sim::gpu
