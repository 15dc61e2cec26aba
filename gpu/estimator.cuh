// Gradient multipliers m(y) and the soft forward value (numerics.md §5), in binary64 with one rounding at the end.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/codec.cuh"
#include "gpu/elementary.cuh"
#include "reference/contract/estimator.h"

namespace fp4sim::gpu {

FP4SIM_HD double magnitude(double v) { return double_of(bits_of(v) & ~(uint64_t{1} << 63)); }

/// Neighbouring grid values with lo ≤ y < hi; the last interval is closed.
struct Interval {
  double lo, hi;
};

/// The interval of a y with |y| ≤ max_normal.
FP4SIM_HD Interval interval_of(double y, const ElementFormat& f) {
  const int top = static_cast<int>(max_normal_code(f));
  // The number of the greatest grid value ≤ y: toward zero from above, one further from zero below it.
  int lower = static_cast<int>(encode(magnitude(y), {f, Rounding::rtz, false}));
  if (y < 0) lower = -lower - (grid_value(lower, f) != -y ? 1 : 0);
  if (lower == top) lower = top - 1;
  return {grid_value(lower, f), grid_value(lower + 1, f)};
}

FP4SIM_HD double dge_multiplier(double y, const Estimator& e, const ElementFormat& f) {
  const Interval in = interval_of(y, f);
  double u = magnitude(2.0 * (y - in.lo) / (in.hi - in.lo) - 1.0);
  if (e.eps > 0) u = sqrt64(u * u + e.eps * e.eps);
  if (u == 0) return e.clip;
  const double m = exp64((1.0 / e.k - 1.0) * log64(u)) / e.k;
  return m < e.clip ? m : e.clip;
}

/// dge_multiplier of e2m1 for |y| ≤ 6. Its steps are powers of two, so that the quotient by one is a product. `power`:
/// 1/k − 1 in binary64.
FP4SIM_HD double dge_multiplier_e2m1(double y, const Estimator& e, double power) {
  const double a = magnitude(y);
  const bool negative = y < 0;  // then the interval's upper end is the one nearer to zero, and open
  const bool halves = negative ? a <= 2 : a < 2, ones = negative ? a <= 4 : a < 4;
  const double per_step = halves ? 2.0 : ones ? 1.0 : 0.5;
  const double steps = a * per_step, below = floor(steps);
  const double last = halves || ones || negative ? below : 2.0;  // the last interval is closed: 6 lies in [4, 6]
  const double lo = negative ? -((below < steps ? below + 1 : below) / per_step) : last / per_step;
  double u = magnitude(2.0 * (y - lo) * per_step - 1.0);
  if (e.eps > 0) u = sqrt64(u * u + e.eps * e.eps);
  if (u == 0) return e.clip;
  const double m = exp64(power * log64(u)) / e.k;
  return m < e.clip ? m : e.clip;
}

FP4SIM_HD double dsq_multiplier(double y, const Estimator& e, const ElementFormat& f) {
  const Interval in = interval_of(y, f);
  const double width = in.hi - in.lo, middle = (in.lo + in.hi) / 2.0;
  const double k = log64(2.0 / e.alpha - 1.0) / width, s = 1.0 / (1.0 - e.alpha);
  const double t = tanh64(k * (y - middle));
  return ((width / 2.0 * s) * k) * (1.0 - t * t);
}

/// The sum of bell curves around all midpoints, ascending; terms with |z| > 40 and those of a NaN y are left out.
FP4SIM_HD double soft_multiplier(double y, const Estimator& e, const ElementFormat& f) {
  const int top = static_cast<int>(max_normal_code(f));
  double sum = 0, hi = grid_value(-top, f);
  for (int i = -top + 1; i <= top; ++i) {
    const double lo = hi;
    hi = grid_value(i, f);
    const double z = magnitude(e.beta * (y - (lo + hi) / 2.0));
    if (!(z <= 40.0)) continue;
    const double p = exp64(-z);
    sum = sum + ((hi - lo) * e.beta) * (p / ((1.0 + p) * (1.0 + p)));
  }
  return sum;
}

/// m(y) of every kind but ewgs, which is no multiplier. A NaN y gives 0 except under ste.
FP4SIM_HD float estimator_multiplier(double y, const Estimator& e, const ElementFormat& f) {
  if (e.kind == EstimatorKind::ste) return 1.0f;
  if (e.kind == EstimatorKind::soft) return static_cast<float>(soft_multiplier(y, e, f));
  const double limit = static_cast<double>(max_normal(f)), size = magnitude(y);
  if (e.kind == EstimatorKind::quest) return size < limit ? 1.0f : 0.0f;
  if (!(size <= limit)) return 0.0f;
  if (e.kind == EstimatorKind::dge) return static_cast<float>(dge_multiplier(y, e, f));
  if (e.kind == EstimatorKind::dsq) return static_cast<float>(dsq_multiplier(y, e, f));
  return 1.0f;  // ste_clip
}

/// The real number a − b rounded once to binary32: the difference is first rounded to odd in binary64.
FP4SIM_HD float difference_f32(double a, double b) {
  const double d = a - b;
  const bool finite = magnitude(d) < double_of(uint64_t{0x7FF} << 52);
  if (!finite) return static_cast<float>(d);
  const double shadow = a - d;  // what d takes from a; b against it is part of the rounding error
  const double error = (a - (d + shadow)) - (b - shadow);
  uint64_t bits = bits_of(d);
  // An even last bit of an inexact d becomes odd, toward the real number.
  if (error != 0 && (bits & 1) == 0) bits = (error > 0) == (d > 0) ? bits + 1 : bits - 1;
  return static_cast<float>(double_of(bits));
}

/// dx of ewgs: fl(dy·fl(1 + fl(δ·fl(sign(dy)·fl(y − code value))))), δ rounded to binary32.
FP4SIM_HD float ewgs_gradient(float dy, double y, float code_value, double delta) {
  const float sign = dy > 0 ? 1.0f : dy < 0 ? -1.0f : 0.0f;
  return dy * (1.0f + static_cast<float>(delta) * (sign * difference_f32(y, static_cast<double>(code_value))));
}

/// σ of the soft forward value.
FP4SIM_HD double logistic(double z) {
  const double e = exp64(-magnitude(z));
  return z >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}

/// The soft forward value f of y with y's sign: steps Δ_i·(σ(β(|y|−c_i)) − σ(−β(|y|+c_i))) over the positive midpoints.
FP4SIM_HD double soft_value(double y, double beta, const ElementFormat& f) {
  const int top = static_cast<int>(max_normal_code(f));
  const double t = magnitude(y);
  double sum = 0, hi = 0;
  for (int i = 1; i <= top; ++i) {
    const double lo = hi;
    hi = grid_value(i, f);
    const double middle = (lo + hi) / 2.0;
    sum = sum + (hi - lo) * (logistic(beta * (t - middle)) - logistic(-(beta * (t + middle))));
  }
  return (bits_of(y) >> 63) != 0 ? -sum : sum;
}

}  // namespace fp4sim::gpu
