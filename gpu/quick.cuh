// Quick values of e^x, good to a relative 2^-38, and of the logistic function, good to 2^-43: binary64 with fma and
// fewer terms. Where no middle between two floats lies that near, the rounding to binary32 is that of the specified
// value (numerics.md §8), whose own error is smaller; elsewhere, once in thousands or in hundred thousands, the caller
// computes the specified one.
#pragma once

#include "gpu/arithmetic.cuh"
#include "reference/contract/coefficients.h"

namespace fp4sim::gpu {

FP4SIM_HD double fma64(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

/// 1/d for a normal d to a relative 2^-52: an approximation to 2^-19, then e + e² of its error.
FP4SIM_HD double quick_reciprocal(double d) {
  double first;
#ifdef __CUDA_ARCH__
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(first) : "d"(d));
#else
  first = double_of(bits_of(1.0 / d) & 0xFFFFFFFF00000000ull);
#endif
  const double e = fma64(-d, first, 1.0);
  return fma64(first, fma64(e, e, e), first);
}

/// p with the last bits of `shifted` added to its exponent.
FP4SIM_HD double scaled_by(double p, double shifted) {
#ifdef __CUDA_ARCH__
  return __hiloint2double(__double2hiint(p) + (__double2loint(shifted) << 20), __double2loint(p));
#else
  return double_of(bits_of(p) + (bits_of(shifted) << 52));
#endif
}

/// e^x for |x| ≤ 100: x = n·ln 2 + r, a polynomial of degree 8 through the zeros of a Chebyshev polynomial on
/// |r| ≤ ln 2/2 (relative error below 2^-38.7), n added to the exponent.
FP4SIM_HD double quick_exp(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const double shifted = fma64(x, kLog2E, kRoundMagic);
  const double r = fma64(shifted - kRoundMagic, -kLn2, x);
  double p = 0x1.a136bf03ec612p-16;
  p = fma64(p, r, 0x1.a17e052cd2c8fp-13);
  p = fma64(p, r, 0x1.6c166bde96885p-10);
  p = fma64(p, r, 0x1.1110a6173845ep-7);
  p = fma64(p, r, 0x1.55555565c7e0ep-5);
  p = fma64(p, r, 0x1.5555557e7777ep-3);
  p = fma64(p, r, 0x1.fffffffffe062p-2);
  p = fma64(p, r, 0x1.fffffffff61ddp-1);
  p = fma64(p, r, 1.0);
  return scaled_by(p, shifted);
}

/// The same with two terms more (relative error below 2^-50; twice 2^-49 where n is large).
FP4SIM_HD double closer_exp(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const double shifted = fma64(x, kLog2E, kRoundMagic);
  const double r = fma64(shifted - kRoundMagic, -kLn2, x);
  double p = 0x1.28917c89a43a7p-22;
  p = fma64(p, r, 0x1.72e107c874de9p-19);
  p = fma64(p, r, 0x1.a019b9149a41cp-16);
  p = fma64(p, r, 0x1.a01994c849582p-13);
  p = fma64(p, r, 0x1.6c16c17889ef1p-10);
  p = fma64(p, r, 0x1.11111123bf154p-7);
  p = fma64(p, r, 0x1.5555555553d68p-5);
  p = fma64(p, r, 0x1.5555555550d88p-3);
  p = fma64(p, r, 0x1.0000000000001p-1);
  p = fma64(p, r, 0x1.0000000000006p+0);
  p = fma64(p, r, 1.0);
  return scaled_by(p, shifted);
}

/// σ(z) = 1/(1 + e^−z) and 1 − σ(z) for |z| ≤ 100.
struct Logistic {
  double of, rest;
};
FP4SIM_HD Logistic quick_logistic(double z) {
  const double e = closer_exp(-z);
  const double of = quick_reciprocal(1.0 + e);
  return {of, e * of};
}

/// The exponent field of a binary64 number.
FP4SIM_HD int exponent_field(double v) { return static_cast<int>(bits_of(v) >> 52) & 0x7FF; }

/// True if all numbers that lie within `reach` last places of y, whose binary32 is normal, round to the same float;
/// reach < 2^28.
FP4SIM_HD bool rounds_within(double y, uint32_t reach) {
  constexpr uint32_t kBelow = 0x1FFFFFFFu, kMiddle = 0x10000000u;  // last places of y below one of the float
  return ((static_cast<uint32_t>(bits_of(y)) - kMiddle + reach) & kBelow) > 2 * reach;
}

/// The same for a relative 2^(k−37) of y, 0 ≤ k ≤ 11.
FP4SIM_HD bool rounds_alike(double y, int k) { return rounds_within(y, 0x10000u << k); }

}  // namespace fp4sim::gpu
