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

  F64 operator()(F64 y) const {
    const F64 slope = exp64(exponent * log64(position(y))) / k;
    const F64 clipped = xsimd::select(slope > clip, clip, slope);
    return xsimd::select(magnitude64(y) <= max_normal, clipped, F64(0.0));
  }
};

struct SoftSum {
  const EstimatorPlan& p;
  F64 operator()(F64 y) const {
    F64 sum(0.0);
    const F64 beta(p.beta), one(1.0);
    for (int64_t i = 0; i < p.terms; ++i) {
      const F64 z = magnitude64(beta * (y - F64(p.midpoints[i])));
      const auto near = z <= F64(40.0);
      if (xsimd::none(near)) continue;
      const F64 e = exp64(-z);
      const F64 term = F64(p.weights[i]) * (e / ((one + e) * (one + e)));
      sum = sum + xsimd::select(near, term, F64(0.0));
    }
    return sum;
  }
};

struct InsideOrAt {
  F64 max_normal;
  F64 operator()(F64 y) const { return xsimd::select(magnitude64(y) <= max_normal, F64(1.0), F64(0.0)); }
};
struct Inside {
  F64 max_normal;
  F64 operator()(F64 y) const { return xsimd::select(magnitude64(y) < max_normal, F64(1.0), F64(0.0)); }
};
struct One {
  F64 operator()(F64) const { return F64(1.0); }
};

/// dx = fl(dy·fl(m(y))) for one segment.
template <class Multiplier>
void multiply(const float* dy, const float* y, int64_t n, bool scaled, const Multiplier& m, float* dx) {
  for_vectors(n, [&](int64_t i, auto part) {
    const F32 v = part.load(y + i);
    const F64x2 wide = widen(v);
    F32 slope = narrow({m(wide.low), m(wide.high)});
    if (scaled) slope = xsimd::select(v == v, slope, F32(0.0f));  // a nonfinite block
    part.store(dx + i, part.load(dy + i) * slope);
  });
}

void multiply_by_kind(const EstimatorPlan& p, bool scaled, const float* dy, const float* y, int64_t n, float* dx) {
  switch (p.kind) {
    case EstimatorKind::ste: return multiply(dy, y, n, scaled, One{}, dx);
    case EstimatorKind::ste_clip: return multiply(dy, y, n, scaled, InsideOrAt{F64(p.max_normal)}, dx);
    case EstimatorKind::quest: return multiply(dy, y, n, scaled, Inside{F64(p.max_normal)}, dx);
    case EstimatorKind::dge: return multiply(dy, y, n, scaled, DgeGrid(p), dx);
    case EstimatorKind::soft: return multiply(dy, y, n, scaled, SoftSum{p}, dx);
    default: __builtin_unreachable();
  }
}

void gradient(const EstimatorPlan& plan, Scaling scaling, float max_normal, const float* dy, const float* x, int64_t n,
              BlockFactors f, float* dx) {
  alignas(64) float y[kSegment];
  const bool scaled = scaling != Scaling::none;
  const F32 largest(0x1.fffffep+127f);
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    scale_segment(scaling, x + at, count, at, f, max_normal, y);
    // A finite x never has an infinite y (§4.2).
    if (scaled)
      for_vectors(count, [&](int64_t i, auto part) { part.store(y + i, clamp_to(part.load(y + i), largest)); });
    multiply_by_kind(plan, scaled, dy + at, y, count, dx + at);
  }
}

}  // namespace

extern const EstimatorKernels estimator_kernels;
const EstimatorKernels estimator_kernels = {gradient};

}  // namespace fp4sim::simd::FP4SIM_ISA
