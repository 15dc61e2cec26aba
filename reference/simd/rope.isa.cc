// Rows of rope (numerics.md §9): y0 = fma(−x1, s, x0·c), y1 = fma(x1, c, x0·s).
#include "reference/simd/fma.h"
#include "reference/simd/kernels_norms.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

struct Pairs {
  F32 even, odd;
};

#if defined(FP4SIM_ISA_avx512)
inline __m512i take(int first) {
  return _mm512_add_epi32(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                          _mm512_set1_epi32(first));
}
inline Pairs separate(F32 a, F32 b) {
  return {F32(_mm512_permutex2var_ps(a, take(0), b)), F32(_mm512_permutex2var_ps(a, take(1), b))};
}
inline Pairs interleave(Pairs p) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  return {F32(_mm512_permutex2var_ps(p.even, low, p.odd)), F32(_mm512_permutex2var_ps(p.even, high, p.odd))};
}
#elif defined(FP4SIM_ISA_avx2)
inline Pairs separate(F32 a, F32 b) {
  const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
  return {F32(_mm256_shuffle_ps(low, high, 0x88)), F32(_mm256_shuffle_ps(low, high, 0xDD))};
}
inline Pairs interleave(Pairs p) {
  const __m256 low = _mm256_unpacklo_ps(p.even, p.odd), high = _mm256_unpackhi_ps(p.even, p.odd);
  return {F32(_mm256_permute2f128_ps(low, high, 0x20)), F32(_mm256_permute2f128_ps(low, high, 0x31))};
}
#else
inline Pairs separate(F32 a, F32 b) { return {F32(_mm_shuffle_ps(a, b, 0x88)), F32(_mm_shuffle_ps(a, b, 0xDD))}; }
inline Pairs interleave(Pairs p) { return {F32(_mm_unpacklo_ps(p.even, p.odd)), F32(_mm_unpackhi_ps(p.even, p.odd))}; }
#endif

inline Pairs rotate(Pairs x, F32 c, F32 s) { return {fma(negate(x.odd), s, x.even * c), fma(x.odd, c, x.even * s)}; }

void interleaved(const float* x, const float* cos, const float* sin, float sign, float* y, int64_t half) {
  const F32 direction(sign);
  int64_t i = 0;
  for (; i + kF32Width <= half; i += kF32Width) {
    const float* from = x + 2 * i;
    const Pairs pairs = separate(F32::load_unaligned(from), F32::load_unaligned(from + kF32Width));
    const Pairs turned =
        interleave(rotate(pairs, F32::load_unaligned(cos + i), F32::load_unaligned(sin + i) * direction));
    turned.even.store_unaligned(y + 2 * i);
    turned.odd.store_unaligned(y + 2 * i + kF32Width);
  }
  for (; i < half; ++i) {
    const float x0 = x[2 * i], x1 = x[2 * i + 1], c = cos[i], s = sin[i] * sign;
    y[2 * i] = fma1(-x1, s, x0 * c);
    y[2 * i + 1] = fma1(x1, c, x0 * s);
  }
}

void split(const float* x, const float* cos, const float* sin, float sign, float* y, int64_t half) {
  const F32 direction(sign);
  for_vectors(half, [=](int64_t i, auto part) {
    const Pairs turned =
        rotate({part.load(x + i), part.load(x + half + i)}, part.load(cos + i), part.load(sin + i) * direction);
    part.store(y + i, turned.even);
    part.store(y + half + i, turned.odd);
  });
}

}  // namespace

const RopeKernels rope_kernels = {interleaved, split};

}  // namespace fp4sim::simd::FP4SIM_ISA
