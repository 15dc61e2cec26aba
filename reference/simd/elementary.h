// exp, log and tanh on vectors, for ISA units: coefficients.h operation by operation (no fma), so that every level
// gives the bits of contract/host_math.h. NaN arguments give a NaN; its payload is free.
#pragma once

#include <immintrin.h>

#include <limits>

#include "reference/contract/coefficients.h"
#include "reference/simd/isa.h"

namespace fp4sim::simd::FP4SIM_ISA {

using U64 = xsimd::batch<uint64_t, Arch>;

inline F64 as_f64(U64 bits) { return xsimd::bitwise_cast<F64>(bits); }
inline U64 as_u64(F64 x) { return xsimd::bitwise_cast<U64>(x); }

/// One F32 as two F64, exactly: lanes 0 … n−1 and n … 2n−1.
struct F64x2 {
  F64 low, high;
};

#if defined(FP4SIM_ISA_avx512)
inline F64x2 widen(F32 x) {
  return {F64(_mm512_cvtps_pd(_mm512_castps512_ps256(x))), F64(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)))};
}
/// Both halves rounded once to binary32.
inline F32 narrow(F64x2 x) {
  return F32(_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.low)), _mm512_cvtpd_ps(x.high), 1));
}
#elif defined(FP4SIM_ISA_avx2)
inline F64x2 widen(F32 x) {
  return {F64(_mm256_cvtps_pd(_mm256_castps256_ps128(x))), F64(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))};
}
inline F32 narrow(F64x2 x) {
  return F32(_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(x.low)), _mm256_cvtpd_ps(x.high), 1));
}
#else
inline F64x2 widen(F32 x) { return {F64(_mm_cvtps_pd(x)), F64(_mm_cvtps_pd(_mm_movehl_ps(x, x)))}; }
inline F32 narrow(F64x2 x) { return F32(_mm_movelh_ps(_mm_cvtpd_ps(x.low), _mm_cvtpd_ps(x.high))); }
#endif

/// N vectors of F32 as 2N of F64, and back with one rounding.
template <int N>
inline void widen(const F32 (&x)[N], F64 (&wide)[2 * N]) {
  for (int i = 0; i < N; ++i) {
    const F64x2 halves = widen(x[i]);
    wide[2 * i] = halves.low;
    wide[2 * i + 1] = halves.high;
  }
}
template <int N>
inline void narrow(const F64 (&wide)[2 * N], F32 (&x)[N]) {
  for (int i = 0; i < N; ++i) x[i] = narrow(F64x2{wide[2 * i], wide[2 * i + 1]});
}

/// x within [low, high]; a NaN stays (min and max return their second operand then).
template <class Vector>
inline Vector clamp_keeping_nan(Vector x, Vector low, Vector high) {
  return xsimd::max(low, xsimd::min(high, x));
}

/// n and exp(r) of K arguments: p = Horner's sum, bits = n + kRoundMagic. The chain is long and no processor looks far
/// enough ahead to overlap two of them by itself, so the steps of K chains alternate.
template <int K>
inline void exp_core(const F64 (&x)[K], F64 (&p)[K], U64 (&bits)[K]) {
  const F64 magic(kRoundMagic);
  F64 r[K];
  for (int k = 0; k < K; ++k) {
    const F64 shifted = x[k] * F64(kLog2E) + magic;  // its low bits are the integer n
    const F64 n = shifted - magic;
    r[k] = (x[k] - n * F64(kLn2Hi)) - n * F64(kLn2Lo);
    p[k] = F64(kExp[0]);
    bits[k] = as_u64(shifted);
  }
#pragma GCC unroll 1  // unrolled, the compiler would write one chain after the other
  for (int i = 1; i < kExpTerms; ++i)
    for (int k = 0; k < K; ++k) p[k] = p[k] * r[k] + F64(kExp[i]);
}

/// Replaces x by e^x: +Inf above kExpOverflow, +0 below kExpUnderflow.
template <int K>
inline void exp64(F64 (&x)[K]) {
  F64 p[K];
  U64 bits[K];
  // Beyond these limits the formula gives what it gives at them: +Inf and +0.
  for (int k = 0; k < K; ++k) x[k] = clamp_keeping_nan(x[k], F64(-746.0), F64(710.0));
  exp_core(x, p, bits);
  for (int k = 0; k < K; ++k) {
    // n + 2046 is positive, so that the logical shift halves it like the arithmetic one: half = (n >> 1) + 1023.
    const U64 biased = bits[k] + (U64(uint64_t{2046}) - as_u64(F64(kRoundMagic)));
    const U64 half = biased >> 1;
    x[k] = (p[k] * as_f64(half << 52)) * as_f64((biased - half) << 52);
  }
}
inline F64 exp64(F64 x) {
  F64 one[1] = {x};
  exp64(one);
  return one[0];
}

/// Replaces x by its natural logarithm: NaN below zero, −Inf at ±0.
template <int K>
inline void log64(F64 (&x)[K]) {
  const F64 infinity(std::numeric_limits<double>::infinity());
  const U64 one(uint64_t{1});
  const F64 magic(kRoundMagic);
  F64 e[K], f[K], s[K], z[K], p[K];
  for (int k = 0; k < K; ++k) {
    const auto subnormal = x[k] < F64(0x1p-1022);
    const U64 bits = as_u64(xsimd::select(subnormal, x[k] * F64(0x1p54), x[k]));
    // Biased exponent, made smaller by 54 where the argument was scaled; 2048 keeps it positive for the exact
    // conversion.
    const U64 scaled = as_u64(xsimd::select(subnormal, as_f64(U64(uint64_t{54})), F64(0.0)));
    F64 m = as_f64((bits & U64(0xFFFFFFFFFFFFFull)) | U64(0x3FF0000000000000ull));
    const auto upper = m >= F64(2 * kSqrtHalf);
    m = xsimd::select(upper, m * F64(0.5), m);
    const U64 carry = as_u64(xsimd::select(upper, as_f64(one), F64(0.0)));
    const U64 exponent = (bits >> 52) + carry - scaled + U64(uint64_t{1025});  // e + 2048
    e[k] = (as_f64(as_u64(magic) + exponent) - magic) - F64(2048.0);
    f[k] = m - F64(1.0);
    s[k] = f[k] / (F64(2.0) + f[k]);
    z[k] = s[k] * s[k];
    p[k] = F64(kLog[0]);
  }
#pragma GCC unroll 1  // as in exp_core
  for (int i = 1; i < kLogTerms; ++i)
    for (int k = 0; k < K; ++k) p[k] = p[k] * z[k] + F64(kLog[i]);
  for (int k = 0; k < K; ++k) {
    F64 result = e[k] * F64(kLn2Hi) - ((s[k] * (f[k] - z[k] * p[k]) - e[k] * F64(kLn2Lo)) - f[k]);
    result = xsimd::select(x[k] == F64(0.0), F64(-std::numeric_limits<double>::infinity()), result);
    result = xsimd::select(x[k] < infinity, result, x[k]);  // +Inf and NaN are their own logarithm
    x[k] = xsimd::select(x[k] < F64(0.0), F64(std::numeric_limits<double>::quiet_NaN()), result);
  }
}
inline F64 log64(F64 x) {
  F64 one[1] = {x};
  log64(one);
  return one[0];
}

/// Replaces x by its hyperbolic tangent: a series near zero, beyond it 1 − 2/(e^2a + 1).
template <int K>
inline void tanh64(F64 (&x)[K]) {
  const F64 one(1.0), two(2.0);
  const U64 sign(0x8000000000000000ull);
  F64 r[K], p[K], e[K];
  for (int k = 0; k < K; ++k) {
    const F64 a = as_f64(as_u64(x[k]) & U64(0x7FFFFFFFFFFFFFFFull));
    r[k] = a + a;
    e[k] = r[k];
    p[k] = F64(kExp[0]);
  }
#pragma GCC unroll 1  // as in exp_core
  for (int i = 1; i < kExpTerms - 1; ++i)
    for (int k = 0; k < K; ++k) p[k] = p[k] * r[k] + F64(kExp[i]);
  exp64(e);
  for (int k = 0; k < K; ++k) {
    const F64 minus_one = r[k] * p[k];  // e^r − 1
    const F64 near_zero = minus_one / (minus_one + two), beyond = one - two / (e[k] + one);
    const F64 t = xsimd::select(r[k] <= F64(2 * kTanhSmall), near_zero, beyond);
    x[k] = as_f64(as_u64(t) | (as_u64(x[k]) & sign));
  }
}

/// Replaces x by exp64 of it, rounded once to binary32. Beyond ±200 the result is +0 or +Inf in binary32, and up to
/// there n fits one power of two, which is added to the exponent of p.
template <int N>
inline void exp_f32(F32 (&x)[N]) {
  F64 wide[2 * N], p[2 * N];
  U64 bits[2 * N];
  for (int i = 0; i < N; ++i) x[i] = clamp_keeping_nan(x[i], F32(-200.0f), F32(200.0f));
  widen(x, wide);
  exp_core(wide, p, bits);
  // A NaN of binary32 has zeros in the low bits of its binary64 form: nothing is added to it.
  for (int k = 0; k < 2 * N; ++k) p[k] = as_f64(as_u64(p[k]) + (bits[k] << 52));
  narrow(p, x);
}

/// exp64 and log64 of binary32 arguments, rounded once to binary32.
inline F32 exp_f32(F32 x) {
  F32 one[1] = {x};
  exp_f32(one);
  return one[0];
}
inline F32 log_f32(F32 x) {
  const F64x2 wide = widen(x);
  return narrow({log64(wide.low), log64(wide.high)});
}

}  // namespace fp4sim::simd::FP4SIM_ISA
