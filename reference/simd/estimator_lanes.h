// Functions of y on vectors of binary64, rounded once to binary32: the frame of the estimators (numerics.md §5), for
// ISA units.
#pragma once

#include "reference/simd/elementary.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/wide_values.h"

namespace fp4sim::simd::FP4SIM_ISA {

inline F64 magnitude64(F64 y) { return as_f64(as_u64(y) & U64(0x7FFFFFFFFFFFFFFFull)); }

/// y below is made of so many vectors at a time: four chains in binary64 hide their latency.
inline constexpr int kVectors = 2;
inline constexpr int64_t kTogether = kVectors * kF32Width;

/// out[i] = function(y[i]) rounded to binary32, n a multiple of kTogether; both arrays aligned.
template <class Function>
inline void map_values(const Function& function, const double* y, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kTogether) {
    F32 v[kVectors];
    F64 wide[2 * kVectors];
    for (int k = 0; k < 2 * kVectors; ++k) wide[k] = F64::load_aligned(y + i + k * kF64Width);
    function(wide);
    narrow(wide, v);
    for (int k = 0; k < kVectors; ++k) v[k].store_aligned(out + i + k * kF32Width);
  }
}

/// y of a segment, followed by zeros up to a multiple of kTogether; returns that length.
inline int64_t padded_values(const ValuePlan& value, const float* x, int64_t n, int64_t at, BlockFactors f, double* y) {
  wide_values(value, x, n, at, f, y);
  for (; n % kTogether != 0; ++n) y[n] = 0.0;
  return n;
}

}  // namespace fp4sim::simd::FP4SIM_ISA
