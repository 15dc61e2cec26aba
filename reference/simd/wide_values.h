// y in binary64 (numerics.md §4.1–4.3, sr34 of §6), for ISA units: plain loops that the compiler turns into vectors.
// Every scaling and every format; scaled_values.h is the binary32 form of the common ones.
#pragma once

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/scaled_values.h"

namespace fp4sim::simd::FP4SIM_ISA {

inline constexpr float kLargestFloat = 0x1.fffffep+127f;

/// The factor of each of n elements from element `at` of the run on.
inline void expand_factors(BlockFactors f, int64_t at, int64_t n, float* each) {
  if (f.block == 0) {
    for (int64_t i = 0; i < n; ++i) each[i] = f.factors[at + i];
    return;
  }
  int64_t block = at / f.block, left = f.block - at % f.block;
  for (int64_t i = 0; i < n; ++block, left = f.block) {
    const int64_t end = left < n - i ? i + left : n;
    for (; i < end; ++i) each[i] = f.factors[block];
  }
}

/// y as §4.2 has it: x = ±0 stays, an infinite or NaN y becomes ±FLT_MAX with x's sign; NaN in a nonfinite block.
template <class Real>
inline double finite_value(float x, float f, Real y) {
  const Real largest = x < 0 ? -kLargestFloat : kLargestFloat;
  const Real magnitude = y < 0 ? -y : y;
  const Real kept = magnitude < static_cast<Real>(__builtin_inf()) ? y : largest;
  const Real of_zero = x == 0 ? static_cast<Real>(x) : kept;
  return static_cast<double>(f == f ? of_zero : static_cast<Real>(f));
}

/// Replaces y[0, n) by its values: y of elements at, at + 1, … of a run.
inline void wide_values(const ValuePlan& p, const float* x, int64_t n, int64_t at, BlockFactors f, double* y) {
  alignas(64) float each[kSegment];
  if (p.scaling != Scaling::none) expand_factors(f, at, n, each);
  switch (p.scaling) {
    case Scaling::none:
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(x[i]);
      break;
    case Scaling::multiply_real:
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(x[i]) * static_cast<double>(each[i]);
      break;
    case Scaling::multiply:
      for (int64_t i = 0; i < n; ++i) y[i] = finite_value(x[i], each[i], x[i] * each[i]);
      break;
    case Scaling::divide:
      for (int64_t i = 0; i < n; ++i) y[i] = finite_value(x[i], each[i], x[i] / each[i]);
      break;
    case Scaling::divide_clamped:
      for (int64_t i = 0; i < n; ++i) {
        const float v = x[i] / each[i];
        const float below = v > p.max_normal ? p.max_normal : v;
        y[i] = static_cast<double>(below < -p.max_normal ? -p.max_normal : below);
      }
      break;
    case Scaling::quotient:
      for (int64_t i = 0; i < n; ++i) {
        const double denominator = static_cast<double>(each[i]) * p.amax, wide = static_cast<double>(x[i]);
        // f is infinite where b = 0: y = 0, A = 0 included.
        const double quotient = each[i] > kLargestFloat ? wide * 0.0 : wide * p.numerator / denominator;
        y[i] = finite_value(x[i], each[i], quotient);
      }
      break;
    case Scaling::multiply_away: __builtin_unreachable();
  }
  if (p.three_quarters)
    for (int64_t i = 0; i < n; ++i) y[i] *= 0.75;
}

}  // namespace fp4sim::simd::FP4SIM_ISA
