// Philox4x32-10 on vectors (numerics.md §3), for ISA units: words in the order of the elements that take them.
#pragma once

#include <immintrin.h>

#include "reference/contract/philox.h"
#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// Operations on 64-bit lanes that hold a 32-bit word in their low half; the high half is free (mul ignores it).
#if defined(FP4SIM_ISA_avx512)
struct WordLanes {
  using Register = __m512i;
  static constexpr int kLanes = 8;
  static Register set1(uint64_t v) { return _mm512_set1_epi64(static_cast<int64_t>(v)); }
  // Unpacking pairs of lanes puts the words of even lanes before those of odd lanes: counters are dealt accordingly.
  static Register ramp() { return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); }
  static Register add(Register a, Register b) { return _mm512_add_epi64(a, b); }
  static Register mul(Register a, Register b) { return _mm512_mul_epu32(a, b); }
  static Register high(Register a) { return _mm512_srli_epi64(a, 32); }
  static Register xor3(Register a, Register b, Register c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
  /// Low half of a, low half of b above it.
  static Register join(Register a, Register b) { return _mm512_mask_blend_epi32(0xAAAA, a, _mm512_slli_epi64(b, 32)); }
  static void store(uint32_t* to, Register a, Register b) {
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, b));
    _mm512_storeu_si512(to + 16, _mm512_unpackhi_epi64(a, b));
  }
};
#elif defined(FP4SIM_ISA_avx2)
struct WordLanes {
  using Register = __m256i;
  static constexpr int kLanes = 4;
  static Register set1(uint64_t v) { return _mm256_set1_epi64x(static_cast<int64_t>(v)); }
  static Register ramp() { return _mm256_setr_epi64x(0, 2, 1, 3); }
  static Register add(Register a, Register b) { return _mm256_add_epi64(a, b); }
  static Register mul(Register a, Register b) { return _mm256_mul_epu32(a, b); }
  static Register high(Register a) { return _mm256_srli_epi64(a, 32); }
  static Register xor3(Register a, Register b, Register c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
  static Register join(Register a, Register b) { return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA); }
  static void store(uint32_t* to, Register a, Register b) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_unpacklo_epi64(a, b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_unpackhi_epi64(a, b));
  }
};
#else
struct WordLanes {
  using Register = __m128i;
  static constexpr int kLanes = 2;
  static Register set1(uint64_t v) { return _mm_set1_epi64x(static_cast<int64_t>(v)); }
  static Register ramp() { return _mm_set_epi64x(1, 0); }
  static Register add(Register a, Register b) { return _mm_add_epi64(a, b); }
  static Register mul(Register a, Register b) { return _mm_mul_epu32(a, b); }
  static Register high(Register a) { return _mm_srli_epi64(a, 32); }
  static Register xor3(Register a, Register b, Register c) { return _mm_xor_si128(_mm_xor_si128(a, b), c); }
  static Register join(Register a, Register b) {
    return _mm_or_si128(_mm_and_si128(a, _mm_set1_epi64x(0xFFFFFFFF)), _mm_slli_epi64(b, 32));
  }
  static void store(uint32_t* to, Register a, Register b) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi64(a, b));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4), _mm_unpackhi_epi64(a, b));
  }
};
#endif

/// Independent counters in flight: the rounds are one chain of multiplications, several hide their latency.
inline constexpr int kPhiloxGroups = 4;
/// Words written by one call of philox_words.
inline constexpr int kPhiloxBatch = kPhiloxGroups * WordLanes::kLanes * 4;
static_assert(kPhiloxBatch + 4 <= kPhiloxSlack);

/// Writes kPhiloxBatch words: those of counters counter, counter + 1, …
inline void philox_words(const RandomBits& random, uint64_t counter, uint32_t* words) {
  using L = WordLanes;
  using Register = L::Register;
  Register c0[kPhiloxGroups], c1[kPhiloxGroups], c2[kPhiloxGroups], c3[kPhiloxGroups];
  for (int g = 0; g < kPhiloxGroups; ++g) {
    c0[g] = L::add(L::set1(counter + static_cast<uint64_t>(g * L::kLanes)), L::ramp());
    c1[g] = L::high(c0[g]);
    c2[g] = L::set1(random.stream);
    c3[g] = L::set1(random.step);
  }
  uint32_t k0 = static_cast<uint32_t>(random.seed), k1 = static_cast<uint32_t>(random.seed >> 32);
  const Register m0 = L::set1(kPhiloxMultiplier0), m1 = L::set1(kPhiloxMultiplier1);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Register key0 = L::set1(k0), key1 = L::set1(k1);
    for (int g = 0; g < kPhiloxGroups; ++g) {
      const Register p0 = L::mul(c0[g], m0), p1 = L::mul(c2[g], m1);
      c0[g] = L::xor3(L::high(p1), c1[g], key0);
      c2[g] = L::xor3(L::high(p0), c3[g], key1);
      c1[g] = p1;
      c3[g] = p0;
    }
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  for (int g = 0; g < kPhiloxGroups; ++g)
    L::store(words + g * L::kLanes * 4, L::join(c0[g], c1[g]), L::join(c2[g], c3[g]));
}

/// Words of elements first … first + n − 1; `words` has room for n + kPhiloxSlack. Returns where element `first` lies.
inline const uint32_t* philox_run(const RandomBits& random, int64_t first, int64_t n, uint32_t* words) {
  const int64_t skip = first % 4;
  for (int64_t done = 0; done < n + skip; done += kPhiloxBatch)
    philox_words(random, static_cast<uint64_t>((first - skip + done) / 4), words + done);
  return words + skip;
}

}  // namespace fp4sim::simd::FP4SIM_ISA
