// silu and gelu with their slopes in binary64, in op.def's order; each op rounds once to binary32. Arguments of usual
// size take the quick way (quick.cuh): a value and whether it surely rounds as the specified one.
#pragma once

#include "gpu/elementary.cuh"

namespace fp4sim::gpu {

struct QuickValue {
  float value;
  bool sure;
};

/// True if the binary32 of a binary64 number is normal, and not one that a smaller number has been rounded up to.
FP4SIM_HD bool is_normal(float rounded) { return fabsf(rounded) > 0x1p-126f; }

/// Last places of what a logistic function gives that it may be off, those of its argument included: a relative 2^-43.
constexpr uint32_t kLogisticReach = 0x400;

/// y, good to a relative 2^-43, as binary32. y is below 2^127. Here as below no condition is a branch.
FP4SIM_HD QuickValue quick_value(double y, bool in_range) {
  const auto value = static_cast<float>(y);
  const bool sure = in_range & rounds_within(y, kLogisticReach) & is_normal(value);
  return {value, sure};
}

/// The slope σ + (2x·u′)·(σ·(1 − σ)) of x·σ(z), from σ and `bend` = 2x·u′. The terms cancel near the slope's zero: what
/// it loses there, its error grows.
FP4SIM_HD QuickValue quick_slope(const Logistic& s, double bend, bool in_range) {
  const double slope = fma64(s.of * s.rest, bend, s.of);
  const int lost = exponent_field(s.of) - exponent_field(slope);
  const int k = lost < -1 ? 1 : lost + 2;
  const auto value = static_cast<float>(slope);
  const bool sure =
      in_range & (k <= 16) & rounds_within(slope, kLogisticReach << (k <= 16 ? k : 16)) & is_normal(value);
  return {value, sure};
}

constexpr float kSiluQuick = 64.0f;  // |x| of the quick way: e^−x is far from the ends of binary64 and binary32

struct Silu {
  FP4SIM_HD static QuickValue quick(float value) {
    const double x = value;
    return quick_value(x * quick_logistic(x).of, fabsf(value) <= kSiluQuick);
  }
  FP4SIM_HD static float exact(float value) {
    const double x = value;
    return static_cast<float>(x / (1.0 + exp64(-x)));
  }
};

struct SiluSlope {
  FP4SIM_HD static QuickValue quick(float value) {
    const double x = value;
    return quick_slope(quick_logistic(x), x, fabsf(value) <= kSiluQuick);
  }
  FP4SIM_HD static float exact(float value) {
    const double x = value;
    const double sigma = 1.0 / (1.0 + exp64(-x));
    return static_cast<float>(sigma * (1.0 + x * (1.0 - sigma)));
  }
};

/// u of gelu(x) ≈ x·σ(2u).
FP4SIM_HD double gelu_argument(double x) { return kSqrt2OverPi * (x + kGeluCubic * ((x * x) * x)); }

constexpr float kGeluQuick = 8.0f;  // |2u| < 50
constexpr double kTwiceScale = 2 * kSqrt2OverPi, kTwiceCubic = 2 * kSqrt2OverPi * kGeluCubic;

struct Gelu {
  FP4SIM_HD static QuickValue quick(float value) {
    const double x = value;
    return quick_value(x * quick_logistic(x * fma64(kTwiceCubic, x * x, kTwiceScale)).of, fabsf(value) <= kGeluQuick);
  }
  FP4SIM_HD static float exact(float value) {
    const double x = value;
    return static_cast<float>(x / (1.0 + exp64(-2.0 * gelu_argument(x))));
  }
};

struct GeluSlope {
  FP4SIM_HD static QuickValue quick(float value) {
    const double x = value, square = x * x;
    const double bend = x * fma64(3.0 * kTwiceCubic, square, kTwiceScale);
    return quick_slope(quick_logistic(x * fma64(kTwiceCubic, square, kTwiceScale)), bend, fabsf(value) <= kGeluQuick);
  }
  FP4SIM_HD static float exact(float value) {
    const double x = value;
    const double sigma = 1.0 / (1.0 + exp64(-2.0 * gelu_argument(x)));
    const double du = kSqrt2OverPi * (1.0 + (3.0 * kGeluCubic) * (x * x));
    return static_cast<float>(sigma + ((2.0 * x) * (sigma * (1.0 - sigma))) * du);
  }
};

template <class F>
FP4SIM_HD float activated(float value) {
  const QuickValue quick = F::quick(value);
  return quick.sure ? quick.value : F::exact(value);
}
FP4SIM_HD float silu_value(float value) { return activated<Silu>(value); }
FP4SIM_HD float silu_slope(float value) { return activated<SiluSlope>(value); }
FP4SIM_HD float gelu_value(float value) { return activated<Gelu>(value); }
FP4SIM_HD float gelu_slope(float value) { return activated<GeluSlope>(value); }

}  // namespace fp4sim::gpu
