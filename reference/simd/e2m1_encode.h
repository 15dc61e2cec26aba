// Packed e2m1 codes in one pass, for ISA units: y = fl(x·f), nearest even, saturating, NaN as +0. |y| ≤ 6 lies in a
// binade [2^E, 2^(E+1)), E = 0, 1, 2 (0 for all of |y| < 2), whose steps are 2^(E−1) wide, and a code is the number of
// steps plus 2E. The sum of y and a number 2^22 times the binade's has these steps as the unit of its last bit: the
// processor rounds y to them, nearest even, and the sum's exponent holds E.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// True for jobs whose codes encode_group gives; false at levels without it.
inline bool encodes_e2m1([[maybe_unused]] const EncodeJob& job) {
#if defined(FP4SIM_ISA_sse2)
  return false;
#else
  const Codec& c = job.codec;
  const bool e2m1 = c.bits == 4 && c.mantissa_bits == 1 && c.min_normal == 1.0f && c.max_code == c.overflow_code;
  return e2m1 && c.nan_code == 0 && c.rounding == Rounding::rne && job.scaling == Scaling::multiply;
#endif
}

/// How many elements of x[0, n), from the first on, it encoded to `codes`: all but the last few, or 0 where the job or
/// the level has no fast way. The codes are those of encode_array and pack.
int64_t encode_e2m1(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, uint8_t* codes);

#if !defined(FP4SIM_ISA_sse2)

// 2^22, plus three ulps of 2 steps (6 in all: even, ties stay ties) that make the low four bits of 2·(biased exponent)
// plus the last bits zero for code 0: 2·(127 + 22) + 6 = 0x130.
inline constexpr float kMagic = 0x1p22f + 3.0f;
inline constexpr int kExponentToTwos = 22;  // shifts the exponent field to twice its number, and the sign to bit 9
inline constexpr int kSignToCode = 6;       // shifts bit 9 to bit 3

#if defined(FP4SIM_ISA_avx512)

inline constexpr int64_t kGroupElements = 128;

/// The code in bits 0–2 and the sign in bit 9 of every lane; other bits are anything. NaN counts as +0.
inline __m512i code_and_sign(__m512 y) {
  constexpr int kSmallerMagnitude = 2, kLargerMagnitude = 3;  // vrangeps; the sign is the first operand's
  const __mmask16 ordered = _mm512_cmp_ps_mask(y, y, _CMP_ORD_Q);
  const __m512 saturated = _mm512_maskz_range_ps(ordered, y, _mm512_set1_ps(6.0f), kSmallerMagnitude);
  const __m512 power = _mm512_and_ps(saturated, _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(0xFF800000u))));
  const __m512 binade = _mm512_range_ps(power, _mm512_set1_ps(1.0f), kLargerMagnitude);
  const __m512i sum = _mm512_castps_si512(_mm512_fmadd_ps(binade, _mm512_set1_ps(kMagic), saturated));
  return _mm512_add_epi32(sum, _mm512_srli_epi32(sum, kExponentToTwos));
}

/// Bits of a where the mask has ones, else of b.
inline __m512i select_bits(uint32_t mask, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(static_cast<int>(mask)), a, b, 0xCA);
}

/// Two vectors as 16-bit halves of lanes: codes in their bits 0–3.
inline __m512i merge_words(__m512i a, __m512i b) {
  const __m512i both = select_bits(0x0000FFFFu, a, _mm512_slli_epi32(b, 16));
  return select_bits(0x00070007u, both, _mm512_srli_epi32(both, kSignToCode));
}

/// 64 elements: byte k of the low half of 64-bit lane j holds elements 2j and 2j+1 of vector k.
template <class Value>
inline __m512i nibbles_by_lane(int64_t i, const Value& value) {
  const __m512i t0 = code_and_sign(value(i)), t1 = code_and_sign(value(i + 16));
  const __m512i t2 = code_and_sign(value(i + 32)), t3 = code_and_sign(value(i + 48));
  // Bytes in the order of the vectors.
  const __m512i bytes = select_bits(0x00FF00FFu, merge_words(t0, t2), _mm512_slli_epi32(merge_words(t1, t3), 8));
  return select_bits(0x0F0F0F0Fu, bytes, _mm512_srli_epi64(bytes, 28));
}

/// Encodes kGroupElements from element i on; value(i) gives y of the vector that begins at element i.
template <class Value>
inline void encode_group(int64_t i, const Value& value, uint8_t* codes) {
  const __m512i low_halves = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i transpose4 =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i interleave = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const __m512i a = nibbles_by_lane(i, value), b = nibbles_by_lane(i + 64, value);
  // A 32-bit lane j holds a byte of each of four vectors; transposed, a vector's eight bytes follow each other.
  const __m512i lanes = _mm512_shuffle_epi8(_mm512_permutex2var_epi32(a, low_halves, b), transpose4);
  _mm512_storeu_si512(codes + i / 2, _mm512_permutexvar_epi32(interleave, lanes));
}

#else

inline constexpr int64_t kGroupElements = 64;

/// The code in bits 0–2 and the sign in bit 9 of every lane; other bits are 0. NaN counts as +0.
inline __m256i code_and_sign(__m256 y) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  y = _mm256_and_ps(y, _mm256_cmp_ps(y, y, _CMP_ORD_Q));
  const __m256 saturated = _mm256_min_ps(_mm256_andnot_ps(sign_bit, y), _mm256_set1_ps(6.0f));
  const __m256 power = _mm256_and_ps(saturated, _mm256_castsi256_ps(_mm256_set1_epi32(0x7F800000)));
  const __m256 binade = _mm256_max_ps(power, _mm256_set1_ps(1.0f));
  const __m256 magnitude = _mm256_fmadd_ps(binade, _mm256_set1_ps(kMagic), saturated);
  const __m256i sum = _mm256_castps_si256(_mm256_or_ps(magnitude, _mm256_and_ps(y, sign_bit)));
  const __m256i code = _mm256_add_epi32(sum, _mm256_srli_epi32(sum, kExponentToTwos));
  return _mm256_and_si256(code, _mm256_set1_epi32(0x207));
}

/// 16 elements as words: codes with their sign.
template <class Value>
inline __m256i code_words(int64_t i, const Value& value) {
  const __m256i both = _mm256_packs_epi32(code_and_sign(value(i)), code_and_sign(value(i + 8)));
  return _mm256_and_si256(_mm256_or_si256(both, _mm256_srli_epi16(both, kSignToCode)), _mm256_set1_epi16(15));
}

/// 32 elements as words of two codes. Both 128-bit halves hold halves of the vectors, in order.
template <class Value>
inline __m256i code_pairs(int64_t i, const Value& value) {
  const __m256i bytes = _mm256_packus_epi16(code_words(i, value), code_words(i + 16, value));
  return _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001));
}

/// Encodes kGroupElements from element i on; value(i) gives y of the vector that begins at element i.
template <class Value>
inline void encode_group(int64_t i, const Value& value, uint8_t* codes) {
  const __m256i bytes = _mm256_packus_epi16(code_pairs(i, value), code_pairs(i + 32, value));
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  __m128i* to = reinterpret_cast<__m128i*>(codes + i / 2);
  _mm_storeu_si128(to, _mm_unpacklo_epi16(low, high));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, high));
}

#endif

#endif

}  // namespace fp4sim::simd::FP4SIM_ISA
