// fma(a, b, c) with one rounding on every level. xsimd::fma is unfused on SSE2 and AVX-512 and therefore forbidden
// here. SSE2 has no fma: a·b is exact in binary64, the sum is rounded to odd there and once to binary32, which equals a
// fused multiply-add because binary64 has more than 24 + 2 bits (Boldo, Melquiond: "Emulation of a FMA…", IEEE ToC
// 2008).
#pragma once

#include <immintrin.h>

#include "reference/simd/isa.h"

namespace fp4sim::simd::FP4SIM_ISA {

#if defined(FP4SIM_ISA_avx512)

inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }

#elif defined(FP4SIM_ISA_avx2)

inline F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }

#else

/// p + c in binary64 rounded to odd: where the sum is inexact and its last bit even, one step toward the exact value.
inline __m128d add_to_odd(__m128d p, __m128d c) {
  const __m128d sum = _mm_add_pd(p, c);
  const __m128d back = _mm_sub_pd(sum, p);  // TwoSum (Knuth): error of the sum, exact unless something is Inf or NaN
  const __m128d error = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(sum, back)), _mm_sub_pd(c, back));
  const __m128i bits = _mm_castpd_si128(sum);
  const __m128i one = _mm_set1_epi64x(1);
  // Finite and inexact: error != 0 and error is ordered (Inf − Inf in TwoSum gives NaN: leave the sum alone).
  const __m128d zero = _mm_setzero_pd();
  const __m128i inexact = _mm_castpd_si128(_mm_and_pd(_mm_cmpneq_pd(error, zero), _mm_cmpord_pd(error, error)));
  // Exact value above |sum|: same signs of sum and error → set the odd bit upward; else the neighbour below is odd.
  const __m128i differ = _mm_srli_epi64(_mm_xor_si128(bits, _mm_castpd_si128(error)), 63);  // 1 where signs differ
  const __m128i even = _mm_sub_epi64(one, _mm_and_si128(bits, one));                        // 1 where the last bit is 0
  // +1 if signs agree, −1 if they differ; only even, inexact sums move.
  const __m128i step = _mm_sub_epi64(one, _mm_add_epi64(differ, differ));
  const __m128i move = _mm_and_si128(inexact, _mm_and_si128(step, _mm_sub_epi64(_mm_setzero_si128(), even)));
  return _mm_castsi128_pd(_mm_add_epi64(bits, move));
}

inline F32 fma(F32 a, F32 b, F32 c) {
  const __m128d p0 = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b));
  const __m128d p1 = _mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)));
  const __m128 low = _mm_cvtpd_ps(add_to_odd(p0, _mm_cvtps_pd(c)));
  const __m128 high = _mm_cvtpd_ps(add_to_odd(p1, _mm_cvtps_pd(_mm_movehl_ps(c, c))));
  return F32(_mm_movelh_ps(low, high));
}

#endif

/// Not needed, and without this line argument-dependent lookup would find xsimd's unfused one.
F64 fma(F64 a, F64 b, F64 c) = delete;

/// One element by the same rule, for tails.
inline float fma1(float a, float b, float c) {
#if defined(FP4SIM_ISA_avx512) || defined(FP4SIM_ISA_avx2)
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
#else
  return _mm_cvtss_f32(static_cast<__m128>(fma(F32(a), F32(b), F32(c))));
#endif
}

}  // namespace fp4sim::simd::FP4SIM_ISA
