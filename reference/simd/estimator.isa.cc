// estimator_grad on a run of elements (numerics.md §5): the multiplier m(y) in binary64, one rounding, one product.
#include "reference/simd/elementary.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/scaled_values.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

inline F64 magnitude64(F64 y) { return as_f64(as_u64(y) & U64(0x7FFFFFFFFFFFFFFFull)); }

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
    const F64 steps = t * inverse;  // exact, below 2^53: adding 2^52 rounds it to an integer
    const F64 shift(0x1p52);
    const F64 nearest = (steps + shift) - shift;
    const F64 whole = xsimd::select(nearest > steps, nearest - F64(1.0), nearest);
    const F64 below = whole * step;  // the grid value toward zero
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

constexpr int kVectors = 2;  // of y together: four chains in binary64
constexpr int64_t kTogether = kVectors * kF32Width;

/// m(y) rounded to binary32, n a multiple of kTogether.
template <class Multiplier>
void slopes_by(const Multiplier& multiplier, const float* y, int64_t n, float* slopes) {
  for (int64_t i = 0; i < n; i += kTogether) {
    F32 v[kVectors];
    F64 wide[2 * kVectors];
    for (int k = 0; k < kVectors; ++k) v[k] = F32::load_aligned(y + i + k * kF32Width);
    widen(v, wide);
    multiplier(wide);
    narrow(wide, v);
    for (int k = 0; k < kVectors; ++k) v[k].store_aligned(slopes + i + k * kF32Width);
  }
}

void slopes_of(const EstimatorPlan& p, const float* y, int64_t n, float* slopes) {
  const F64 limit(p.max_normal);
  switch (p.kind) {
    case EstimatorKind::ste: return slopes_by(One{}, y, n, slopes);
    case EstimatorKind::ste_clip: return slopes_by(Indicator{[=](F64 t) { return t <= limit; }}, y, n, slopes);
    case EstimatorKind::quest: return slopes_by(Indicator{[=](F64 t) { return t < limit; }}, y, n, slopes);
    case EstimatorKind::dge: return slopes_by(DgeGrid(p), y, n, slopes);
    case EstimatorKind::soft: return slopes_by(SoftSum{p}, y, n, slopes);
    default: __builtin_unreachable();
  }
}

/// dx = fl(dy·m); a NaN y of a scaled spec is that of a nonfinite block: m = 0.
void multiply(const float* dy, const float* y, const float* slopes, int64_t n, bool scaled, float* dx) {
  for_vectors(n, [&](int64_t i, auto part) {
    F32 slope = part.load(slopes + i);
    const F32 v = part.load(y + i);
    if (scaled) slope = xsimd::select(v == v, slope, F32(0.0f));
    part.store(dx + i, part.load(dy + i) * slope);
  });
}

void gradient(const EstimatorPlan& plan, Scaling scaling, float max_normal, const float* dy, const float* x, int64_t n,
              BlockFactors f, float* dx) {
  alignas(64) float y[kSegment], slopes[kSegment];
  const bool scaled = scaling != Scaling::none;
  const F32 largest(0x1.fffffep+127f);
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    scale_segment(scaling, x + at, count, at, f, max_normal, y);
    // A finite x never has an infinite y (§4.2).
    if (scaled)
      for_vectors(count, [&](int64_t i, auto part) { part.store(y + i, clamp_to(part.load(y + i), largest)); });
    int64_t padded = count;
    for (; padded % kTogether != 0; ++padded) y[padded] = 0.0f;
    slopes_of(plan, y, padded, slopes);
    multiply(dy + at, y, slopes, count, scaled, dx + at);
  }
}

/// σ(z) from e = exp64(−|z|).
inline F64 sigmoid(F64 z, F64 e) {
  const F64 one(1.0);
  return xsimd::select(z >= F64(0.0), one, e) / (one + e);
}

/// f(|y|) with the sign of y: Σ over the positive midpoints, the upper half of the plan's.
struct SoftValue {
  const EstimatorPlan& p;
  template <int K>
  void operator()(F64 (&y)[K]) const {
    const F64 beta(p.beta);
    F64 sum[K];
    for (F64& s : sum) s = F64(0.0);
    for (int64_t i = p.terms / 2; i < p.terms; ++i) {
      const F64 c(p.midpoints[i]);
      F64 near[K], far[K], near_exp[K], far_exp[K];
      for (int k = 0; k < K; ++k) {
        const F64 t = magnitude64(y[k]);
        near[k] = beta * (t - c);
        far[k] = negate(beta * (t + c));
        near_exp[k] = negate(magnitude64(near[k]));
        far_exp[k] = far[k];  // never positive
      }
      exp64(near_exp);
      exp64(far_exp);
      for (int k = 0; k < K; ++k)
        sum[k] = sum[k] + F64(p.heights[i]) * (sigmoid(near[k], near_exp[k]) - sigmoid(far[k], far_exp[k]));
    }
    const U64 sign(0x8000000000000000ull);
    for (int k = 0; k < K; ++k) y[k] = as_f64((as_u64(y[k]) & sign) | as_u64(magnitude64(sum[k])));
  }
};

void soft_forward(const EstimatorPlan& plan, Scaling scaling, float max_normal, const float* x, int64_t n,
                  BlockFactors f, BlockFactors scales, const float* d, float* out) {
  alignas(64) float y[kSegment], values[kSegment];
  const bool scaled = scaling != Scaling::none;
  const F32 largest(0x1.fffffep+127f);
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    scale_segment(scaling, x + at, count, at, f, max_normal, y);
    if (scaled)
      for_vectors(count, [&](int64_t i, auto part) { part.store(y + i, clamp_to(part.load(y + i), largest)); });
    int64_t padded = count;
    for (; padded % kTogether != 0; ++padded) y[padded] = 0.0f;
    slopes_by(SoftValue{plan}, y, padded, values);
    if (scaled) scale_segment<Scaling::multiply>(values, count, at, scales, max_normal, values);
    const F32 tensor_scale(d != nullptr ? *d : 1.0f);
    for_vectors(count, [&](int64_t i, auto part) {
      const F32 v = part.load(values + i);
      part.store(out + at + i, d != nullptr ? v * tensor_scale : v);
    });
  }
}

}  // namespace

extern const EstimatorKernels estimator_kernels;
const EstimatorKernels estimator_kernels = {gradient, soft_forward};

}  // namespace fp4sim::simd::FP4SIM_ISA
