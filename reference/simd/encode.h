// encode (numerics.md §2, §3) on vectors, for ISA units: binary32 y to codes in 32-bit lanes, and lanes to bytes.
// In the normal range a code is the top of the float's bits rounded; below it |y| is counted in steps of the subnormal
// grid. The template's M is the format's mantissa length; the other facts come as data.
#pragma once

#include <immintrin.h>

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

using F32Mask = xsimd::batch_bool<float, Arch>;

inline I32 as_i32(F32 x) { return xsimd::bitwise_cast<I32>(x); }
inline F32 as_f32(I32 x) { return xsimd::bitwise_cast<F32>(x); }
inline F32 magnitude(F32 x) { return as_f32(as_i32(x) & I32(0x7FFFFFFF)); }
/// 1 where the condition holds, else 0.
inline I32 one_where(F32Mask condition) { return as_i32(xsimd::select(condition, as_f32(I32(1)), F32(0.0f))); }

/// A codec's facts in every lane.
struct EncodeLanes {
  explicit EncodeLanes(const Codec& c)
      : offset((127 - c.bias) << c.mantissa_bits),
        max_code(c.max_code),
        overflow_code(c.overflow_code),
        signed_below(c.unsigned_from),
        nan_code(c.nan_code),
        sign_code(static_cast<int32_t>(1u << (c.bits - 1))),
        min_normal(as_i32(F32(c.min_normal))),
        magic(c.min_step * 8388608.0f),  // 2^23 steps: adding it rounds to whole steps, nearest even
        steps_per_unit(1.0f / c.min_step) {}
  I32 offset, max_code, overflow_code, signed_below, nan_code, sign_code, min_normal;
  F32 magic, steps_per_unit;
};

/// r < f as unsigned 32-bit numbers, 1 or 0.
inline I32 below(I32 r, I32 f) {
  const I32 flip(static_cast<int32_t>(0x80000000u));
  return xsimd::select((r ^ flip) < (f ^ flip), I32(1), I32(0));
}

/// Magnitude code in the normal range: bits >> (23 − M) rounded; `negative` is −1 or 0, r the random words.
template <Rounding R, int M>
inline I32 round_bits(I32 bits, I32 negative, I32 r) {
  constexpr int kDropped = 23 - M;
  const I32 half(1 << (kDropped - 1)), all((1 << kDropped) - 1);
  if constexpr (R == Rounding::rne) return (bits + (half - I32(1)) + ((bits >> kDropped) & I32(1))) >> kDropped;
  if constexpr (R == Rounding::rna) return (bits + half) >> kDropped;
  if constexpr (R == Rounding::rnz) return (bits + half - I32(1)) >> kDropped;
  if constexpr (R == Rounding::rnu) return (bits + half + negative) >> kDropped;
  if constexpr (R == Rounding::rtz) return bits >> kDropped;
  if constexpr (R == Rounding::rtp) return (bits + (~negative & all)) >> kDropped;
  if constexpr (R == Rounding::rtn) return (bits + (negative & all)) >> kDropped;
  if constexpr (R == Rounding::sr32) return (bits >> kDropped) + below(r, bits << (32 - kDropped));
}

/// F = floor(2^32·part), 0 ≤ part < 1 with at most 24 bits: two exact halves.
inline I32 fraction_bits(F32 part) {
  const F32 scale(65536.0f);
  const F32 high = part * scale;
  const I32 top = xsimd::to_int(high);
  return (top << 16) | xsimd::to_int((high - xsimd::to_float(top)) * scale);
}

/// Magnitude code below the normal range: |y| in whole steps. Lanes above it give anything.
template <Rounding R>
inline I32 round_steps(const EncodeLanes& c, F32 y, I32 negative, I32 r) {
  if constexpr (R == Rounding::rne) return as_i32(y + c.magic) - as_i32(c.magic);
  const F32 steps = y * c.steps_per_unit;
  const I32 whole = xsimd::to_int(steps);
  const F32 part = steps - xsimd::to_float(whole);
  const F32 half(0.5f), zero(0.0f);
  if constexpr (R == Rounding::rna) return whole + one_where(part >= half);
  if constexpr (R == Rounding::rnz) return whole + one_where(part > half);
  if constexpr (R == Rounding::rnu)
    return whole + ((one_where(part >= half) & ~negative) | (one_where(part > half) & negative));
  if constexpr (R == Rounding::rtz) return whole;
  if constexpr (R == Rounding::rtp) return whole + (one_where(part > zero) & ~negative);
  if constexpr (R == Rounding::rtn) return whole + (one_where(part > zero) & negative);
  if constexpr (R == Rounding::sr32) return whole + below(r, fraction_bits(part));
}

/// Largest code a lane may have: overflow_code where the result went beyond max_normal away from zero or y is infinite.
template <Rounding R>
inline I32 code_limit(const EncodeLanes& c, I32 bits, I32 negative) {
  const auto infinite = bits == I32(static_cast<int32_t>(kF32Inf));
  if constexpr (R == Rounding::rtz || R == Rounding::sr32) return xsimd::select(infinite, c.overflow_code, c.max_code);
  if constexpr (R == Rounding::rtp)
    return xsimd::select(infinite, c.overflow_code, (c.overflow_code & ~negative) | (c.max_code & negative));
  if constexpr (R == Rounding::rtn)
    return xsimd::select(infinite, c.overflow_code, (c.overflow_code & negative) | (c.max_code & ~negative));
  return c.overflow_code;
}

/// encode(y): the code of every lane, sign included. r: the elements' random words (sr32).
template <Rounding R, int M>
inline I32 encode_lanes(const EncodeLanes& c, F32 y, I32 r) {
  const I32 bits = as_i32(y);
  const I32 negative = bits >> 31;
  const I32 absolute = bits & I32(0x7FFFFFFF);
  I32 code = round_bits<R, M>(absolute, negative, r) - c.offset;
  // bf16 shares binary32's exponents: its subnormal codes are the top bits as well.
  if constexpr (M != 7)
    code = xsimd::select(absolute < c.min_normal, round_steps<R>(c, as_f32(absolute), negative, r), code);
  code = xsimd::min(code, code_limit<R>(c, absolute, negative));
  I32 sign = negative & c.sign_code;
  if constexpr (M == 3) sign = xsimd::select(code < c.signed_below, sign, I32(0));
  return xsimd::select(absolute > I32(static_cast<int32_t>(kF32Inf)), c.nan_code, code | sign);
}

inline constexpr int kStoreVectors = 4;  // vectors of codes narrowed together
inline constexpr int kStoreLanes = kStoreVectors * kF32Width;

/// Codes below 256 as bytes, codes below 65536 as 16-bit words: kStoreLanes of them.
#if defined(FP4SIM_ISA_avx512)
inline void store_codes(const I32 (&c)[kStoreVectors], uint8_t* to) {
  for (int v = 0; v < kStoreVectors; ++v)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + v, _mm512_cvtepi32_epi8(c[v]));
}
inline void store_codes(const I32 (&c)[kStoreVectors], uint16_t* to) {
  for (int v = 0; v < kStoreVectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + v, _mm512_cvtepi32_epi16(c[v]));
}
#elif defined(FP4SIM_ISA_avx2)
inline void store_codes(const I32 (&c)[kStoreVectors], uint8_t* to) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
  // The packs work inside 128-bit halves: put groups of four bytes back in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
}
inline void store_codes(const I32 (&c)[kStoreVectors], uint16_t* to) {
  for (int v = 0; v < kStoreVectors; v += 2)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + v * kF32Width),
                        _mm256_permute4x64_epi64(_mm256_packus_epi32(c[v], c[v + 1]), 0xD8));
}
#else
inline void store_codes(const I32 (&c)[kStoreVectors], uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packus_epi16(_mm_packs_epi32(c[0], c[1]), _mm_packs_epi32(c[2], c[3])));
}
/// Sign-extended from 16 bits, which the signed pack keeps.
inline __m128i extend_words(__m128i v) { return _mm_srai_epi32(_mm_slli_epi32(v, 16), 16); }
inline void store_codes(const I32 (&c)[kStoreVectors], uint16_t* to) {
  for (int v = 0; v < kStoreVectors; v += 2)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + v * kF32Width),
                     _mm_packs_epi32(extend_words(c[v]), extend_words(c[v + 1])));
}
#endif

/// Encodes y[0, n), n a multiple of kStoreLanes, to bytes (M < 7) or 16-bit words.
template <Rounding R, int M, class Code>
inline void encode_array(const Codec& codec, const float* y, const uint32_t* random, int64_t n, Code* codes) {
  const EncodeLanes lanes(codec);
  for (int64_t i = 0; i < n; i += kStoreLanes) {
    I32 group[kStoreVectors];
    for (int v = 0; v < kStoreVectors; ++v) {
      const int64_t at = i + v * kF32Width;
      I32 r(0);
      if constexpr (R == Rounding::sr32) r = I32::load_unaligned(reinterpret_cast<const int32_t*>(random + at));
      group[v] = encode_lanes<R, M>(lanes, F32::load_unaligned(y + at), r);
    }
    store_codes(group, codes + i);
  }
}

}  // namespace fp4sim::simd::FP4SIM_ISA
