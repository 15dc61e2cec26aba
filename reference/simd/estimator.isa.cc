// estimator_grad on a run of elements (numerics.md §5): the multiplier m(y) in binary64, one rounding, one product.
#include "reference/simd/estimator_lanes.h"
#include "reference/simd/soft_forward.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

/// The largest multiple of `step`, a power of two, that is not above t ≥ 0; t/step below 2^52.
inline F64 floor_to_step(F64 t, F64 step) {
  const F64 steps = t * as_f64(U64(2046ull << 52) - as_u64(step));  // exact: times 1/step from its bits
  const F64 shift(0x1p52);                                          // adding it rounds to an integer
  const F64 nearest = (steps + shift) - shift;
  return xsimd::select(nearest > steps, nearest - F64(1.0), nearest) * step;
}

struct DgeGrid {
  F64 max_normal, min_normal, ulp, exponent, k, clip, eps_squared;
  bool smoothed;
  explicit DgeGrid(const EstimatorPlan& p)
      : max_normal(p.max_normal),
        min_normal(p.min_normal),
        ulp(p.ulp),
        exponent(p.exponent),
        k(p.k),
        clip(p.clip),
        eps_squared(p.eps_squared),
        smoothed(p.eps_squared > 0) {}

  /// u' of y: 1 at a grid point, 0 in the middle of an interval.
  F64 position(F64 y) const {
    const F64 t = magnitude64(y);
    // δ = 2^(exponent of |y|, at least emin)·2^-M; its inverse from the bits (both are powers of two).
    const F64 binade = as_f64(as_u64(t) & U64(0x7FF0000000000000ull));
    const F64 step = xsimd::max(binade, min_normal) * ulp;
    const F64 inverse = as_f64(U64(2046ull << 52) - as_u64(step));
    const F64 below = floor_to_step(t, step);  // the grid value toward zero
    const F64 lo_negative = xsimd::select(below == t, -t, -(below + step));
    const F64 lo = xsimd::select(y < F64(0.0), lo_negative, below);
    const F64 u = magnitude64((F64(2.0) * (y - lo)) * inverse - F64(1.0));
    return smoothed ? xsimd::sqrt(u * u + eps_squared) : u;
  }

  template <int K>
  void operator()(F64 (&y)[K]) const {
    F64 m[K];
    for (int i = 0; i < K; ++i) m[i] = position(y[i]);
    log64(m);
    for (int i = 0; i < K; ++i) m[i] = exponent * m[i];
    exp64(m);
    for (int i = 0; i < K; ++i) {
      const F64 slope = m[i] / k;
      const F64 clipped = xsimd::select(slope > clip, clip, slope);
      y[i] = xsimd::select(magnitude64(y[i]) <= max_normal, clipped, F64(0.0));
    }
  }
};

struct SoftSum {
  const EstimatorPlan& p;
  template <int K>
  void operator()(F64 (&y)[K]) const {
    const F64 beta(p.beta), one(1.0), most(40.0);
    F64 sum[K];
    for (F64& s : sum) s = F64(0.0);
    for (int64_t i = 0; i < p.terms; ++i) {
      F64 z[K], e[K];
      bool any_near = false;
      for (int k = 0; k < K; ++k) {
        z[k] = magnitude64(beta * (y[k] - F64(p.midpoints[i])));
        e[k] = -z[k];
        any_near = any_near || xsimd::any(z[k] <= most);
      }
      if (!any_near) continue;  // terms of zero
      exp64(e);
      for (int k = 0; k < K; ++k) {
        const F64 term = F64(p.weights[i]) * (e[k] / ((one + e[k]) * (one + e[k])));
        sum[k] = sum[k] + xsimd::select(z[k] <= most, term, F64(0.0));
      }
    }
    for (int k = 0; k < K; ++k) y[k] = sum[k];
  }
};

struct DsqGrid {
  F64 max_normal, min_normal, ulp, log_ratio, slope;
  explicit DsqGrid(const EstimatorPlan& p)
      : max_normal(p.max_normal), min_normal(p.min_normal), ulp(p.ulp), log_ratio(p.log_ratio), slope(p.slope) {}

  template <int K>
  void operator()(F64 (&y)[K]) const {
    const F64 half(0.5), one(1.0);
    F64 steep[K], t[K];
    for (int i = 0; i < K; ++i) {
      const F64 a = magnitude64(y[i]);
      const F64 binade = as_f64(as_u64(a) & U64(0x7FF0000000000000ull));
      const F64 step = xsimd::max(binade, min_normal) * ulp;
      const F64 below = floor_to_step(a, step);
      // A grid point begins the interval toward +∞: below zero that is the one next to zero, and so at the closed end.
      const auto inward = (below == a) & ((y[i] < F64(0.0)) | (a == max_normal));
      const auto smaller = inward & (binade == a) & (a > min_normal);  // the interval lies in the binade below
      const F64 delta = xsimd::select(smaller, step * half, step);
      const F64 middle = xsimd::select(inward, a - delta * half, below + step * half);
      const F64 k = log_ratio / delta;
      t[i] = k * (a - middle);
      steep[i] = ((delta * half) * slope) * k;
    }
    tanh64(t);
    for (int i = 0; i < K; ++i) {
      const F64 m = steep[i] * (one - t[i] * t[i]);
      y[i] = xsimd::select(magnitude64(y[i]) <= max_normal, m, F64(0.0));
    }
  }
};

/// Exact multipliers: 1 where the condition on |y| holds, else 0.
template <class Condition>
struct Indicator {
  Condition condition;
  template <int K>
  void operator()(F64 (&y)[K]) const {
    for (F64& v : y) v = xsimd::select(condition(magnitude64(v)), F64(1.0), F64(0.0));
  }
};
template <class Condition>
Indicator(Condition) -> Indicator<Condition>;

struct One {
  template <int K>
  void operator()(F64 (&y)[K]) const {
    for (F64& v : y) v = F64(1.0);
  }
};

void slopes_of(const EstimatorPlan& p, const double* y, int64_t n, float* slopes) {
  const F64 limit(p.max_normal);
  switch (p.kind) {
    case EstimatorKind::ste: return map_values(One{}, y, n, slopes);
    case EstimatorKind::ste_clip: return map_values(Indicator{[=](F64 t) { return t <= limit; }}, y, n, slopes);
    case EstimatorKind::quest: return map_values(Indicator{[=](F64 t) { return t < limit; }}, y, n, slopes);
    case EstimatorKind::dge: return map_values(DgeGrid(p), y, n, slopes);
    case EstimatorKind::soft: return map_values(SoftSum{p}, y, n, slopes);
    case EstimatorKind::dsq: return map_values(DsqGrid(p), y, n, slopes);
    case EstimatorKind::ewgs: __builtin_unreachable();
  }
}

void gradient(const EstimatorPlan& plan, const ValuePlan& value, const float* dy, const float* x, int64_t n,
              BlockFactors f, float* dx) {
  alignas(64) double y[kSegment];
  alignas(64) float slopes[kSegment];
  const bool scaled = value.scaling != Scaling::none;
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    const int64_t padded = padded_values(value, x + at, count, at, f, y);
    slopes_of(plan, y, padded, slopes);
    // A NaN y of a scaled spec is that of a nonfinite block: m = 0.
    for (int64_t i = 0; i < count; ++i) {
      const float slope = scaled && y[i] != y[i] ? 0.0f : slopes[i];
      dx[at + i] = dy[at + i] * slope;
    }
  }
}

/// fl(y − v), one rounding of the real difference: rounded to odd in binary64 first.
inline float difference(double y, double v) {
  const double sum = y - v, back = sum - y;
  const double error = (y - (sum - back)) - (v + back);  // TwoSum (Knuth): exact unless something is not finite
  const auto bits = __builtin_bit_cast(int64_t, sum);
  const int64_t outward = (bits < 0) == (error < 0) ? 1 : -1;
  const bool moves = (error < 0 || error > 0) && (bits & 1) == 0;
  return static_cast<float>(__builtin_bit_cast(double, bits + (moves ? outward : 0)));
}

void ewgs(const EstimatorPlan& plan, const ValuePlan& value, const float* dy, const float* x, const float* code_values,
          int64_t n, BlockFactors f, float* dx) {
  alignas(64) double y[kSegment];
  const bool scaled = value.scaling != Scaling::none;
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    wide_values(value, x + at, count, at, f, y);
    for (int64_t i = 0; i < count; ++i) {
      const float g = dy[at + i];
      const float of_negative = g < 0 ? -1.0f : 0.0f, sign = g > 0 ? 1.0f : of_negative;
      const float factor = 1.0f + plan.delta * (sign * difference(y[i], static_cast<double>(code_values[at + i])));
      dx[at + i] = g * (scaled && y[i] != y[i] ? 0.0f : factor);
    }
  }
}

}  // namespace

extern const EstimatorKernels estimator_kernels;
const EstimatorKernels estimator_kernels = {gradient, ewgs, soft_forward};

}  // namespace fp4sim::simd::FP4SIM_ISA
