// The forward value of soft(beta, forward=soft) (numerics.md §5): a sum of sigmoids in binary64, then the scales.
#include "reference/simd/soft_forward.h"

#include "reference/simd/estimator_lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

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

}  // namespace

void soft_forward(const EstimatorPlan& plan, const ValuePlan& value, const float* x, int64_t n, BlockFactors f,
                  BlockFactors scales, const float* d, float* out) {
  alignas(64) double y[kSegment];
  alignas(64) float values[kSegment];
  const bool scaled = value.scaling != Scaling::none;
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    const int64_t padded = padded_values(value, x + at, count, at, f, y);
    map_values(SoftValue{plan}, y, padded, values);
    if (scaled) scale_segment<Scaling::multiply>(values, count, at, scales, value.max_normal, values);
    for (int64_t i = 0; i < count; ++i) out[at + i] = d != nullptr ? values[i] * *d : values[i];
  }
}

}  // namespace fp4sim::simd::FP4SIM_ISA
