// exp64, log64, tanh64 and their roundings to binary32 (numerics.md §8), step by step as coefficients.h states them.
// For device and host code: built without contraction (--fmad=false, -ffp-contract=off), never CUDA's math library.
#pragma once

#include "gpu/quick.cuh"

namespace fp4sim::gpu {

/// The coefficient tables as constants that device code may name.
enum class Series { exponential, logarithm };
template <Series kSeries, int kIndex>
struct Coefficient {
  static constexpr double value = kSeries == Series::exponential ? kExp[kIndex] : kLog[kIndex < kLogTerms ? kIndex : 0];
};

/// Horner evaluation of the first kTerms coefficients, highest first: each step is one product and one sum.
template <Series kSeries, int kTerms>
FP4SIM_HD double horner(double x) {
  if constexpr (kTerms == 1) {
    return Coefficient<kSeries, 0>::value;
  } else {
    const double product = horner<kSeries, kTerms - 1>(x) * x;
    return product + Coefficient<kSeries, kTerms - 1>::value;
  }
}

FP4SIM_HD double infinity64() { return double_of(0x7FF0000000000000ull); }
FP4SIM_HD double nan64() { return double_of(0x7FF8000000000000ull); }

/// e^x in binary64. +Inf above 709.8, +0 below −745.2, NaN for NaN.
FP4SIM_HD double exp64(double x) {
  if (x != x) return nan64();
  if (x > kExpOverflow) return infinity64();
  if (x < kExpUnderflow) return 0.0;
  const double n = (x * kLog2E + kRoundMagic) - kRoundMagic;
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  const double p = horner<Series::exponential, kExpTerms>(r);
  const int exponent = static_cast<int>(n);
  const int first = exponent >> 1;  // two factors, since 2^exponent alone may be no binary64 number
  return (p * pow2_f64(first)) * pow2_f64(exponent - first);
}

/// The natural logarithm in binary64. −Inf for ±0, NaN for x < 0 and NaN, +0 for 1.
FP4SIM_HD double log64(double x) {
  if (x != x || x < 0) return nan64();
  if (x == 0) return -infinity64();
  if (x == infinity64()) return x;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x = x * 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = bits_of(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = double_of((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  if (m >= 2 * kSqrtHalf) {
    m = m * 0.5;
    exponent += 1;
  }
  const double e = exponent;
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r = z * horner<Series::logarithm, kLogTerms>(z);
  return e * kLn2Hi - ((s * (f - r) - e * kLn2Lo) - f);
}

/// The hyperbolic tangent in binary64, with the sign of x; NaN for NaN.
FP4SIM_HD double tanh64(double x) {
  const uint64_t sign = bits_of(x) & 0x8000000000000000ull;
  const double a = double_of(bits_of(x) ^ sign);
  double t;
  if (a <= kTanhSmall) {
    const double r = a + a;
    const double e = r * horner<Series::exponential, kExpTerms - 1>(r);  // e^r − 1 without cancellation
    t = e / (e + 2.0);
  } else {
    t = 1.0 - 2.0 / (exp64(a + a) + 1.0);
  }
  return double_of(bits_of(t) | sign);
}

/// Rounded once to binary32.
FP4SIM_HD float exp_f32(float x) {
  if (x >= -87.0f && x <= 88.0f) {
    const double quick = quick_exp(static_cast<double>(x));
    if (rounds_alike(quick, 0)) return static_cast<float>(quick);
  }
  return static_cast<float>(exp64(static_cast<double>(x)));
}
/// exp_f32 of N numbers in place: the quick way of all of them at once if every one rounds surely.
template <int N>
FP4SIM_HD void exp_f32_of(float (&x)[N]) {
  float quick[N];
  bool sure = true;
  for (int i = 0; i < N; ++i) {
    const double e = quick_exp(static_cast<double>(x[i]));
    quick[i] = static_cast<float>(e);
    sure &= (x[i] >= -87.0f) & (x[i] <= 88.0f) & rounds_alike(e, 0);
  }
  for (int i = 0; i < N; ++i) x[i] = sure ? quick[i] : exp_f32(x[i]);
}
FP4SIM_HD float log_f32(float x) { return static_cast<float>(log64(static_cast<double>(x))); }

}  // namespace fp4sim::gpu
