// Block scales (numerics.md §4.1–4.3): amax of blocks and columns, stored scales from amax, factors from stored scales.
#include "reference/simd/encode.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/lanes.h"
#include "reference/simd/scale_profiles.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

constexpr uint32_t kHalfSmallestNormal = 0x00400000u;  // 2^-127
constexpr float kFloatMax = 0x1.fffffep+127f;
constexpr float kSmallest = 0x1p-149f;
constexpr float kInfinity = __builtin_inff();

inline float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
constexpr float kNaN = __builtin_bit_cast(float, kF32CanonicalNaN);

inline I32 magnitude_bits(F32 x) { return as_i32(x) & I32(0x7FFFFFFF); }

/// Largest lane.
#if defined(FP4SIM_ISA_avx512)
inline int32_t largest(I32 v) { return _mm512_reduce_max_epi32(v); }
#elif defined(FP4SIM_ISA_avx2)
inline int32_t largest(I32 v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}
#else
inline int32_t largest(I32 v) {
  v = xsimd::max(v, I32(_mm_shuffle_epi32(v, 0x4E)));
  return _mm_cvtsi128_si32(xsimd::max(v, I32(_mm_shuffle_epi32(v, 0xB1))));
}
#endif

inline uint32_t amax_of(const float* x, int64_t n) {
  I32 best[4] = {I32(0), I32(0), I32(0), I32(0)};
  int64_t i = 0;
  for (; i + 4 * kF32Width <= n; i += 4 * kF32Width)
    for (int v = 0; v < 4; ++v)
      best[v] = xsimd::max(best[v], magnitude_bits(F32::load_unaligned(x + i + v * kF32Width)));
  for (; i + kF32Width <= n; i += kF32Width) best[0] = xsimd::max(best[0], magnitude_bits(F32::load_unaligned(x + i)));
  if (i < n) best[1] = xsimd::max(best[1], magnitude_bits(Part(n - i).load(x + i)));
  return static_cast<uint32_t>(largest(xsimd::max(xsimd::max(best[0], best[1]), xsimd::max(best[2], best[3]))));
}

void amax_blocks(const float* x, int64_t n, int64_t block, uint32_t* amax) {
  int64_t i = 0;
  if (block == 32 || block == 16) {
    // The common sizes without amax_of's loops.
    for (; i + block <= n; i += block) {
      I32 best(0);
      for (int64_t j = 0; j < block; j += kF32Width)
        best = xsimd::max(best, magnitude_bits(F32::load_unaligned(x + i + j)));
      *amax++ = static_cast<uint32_t>(largest(best));
    }
  }
  for (; i < n; i += block) {
    *amax++ = amax_of(x + i, block < n - i ? block : n - i);
    if (block >= n - i) return;
  }
}

void amax_columns(const float* x, int64_t rows, int64_t stride, int64_t cols, uint32_t* amax) {
  for (int64_t j = 0; j < cols; ++j) amax[j] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
    for (int64_t j = 0; j < cols; ++j) {
      const uint32_t bits = to_bits(row[j]) & kF32MagnitudeMask;
      amax[j] = bits > amax[j] ? bits : amax[j];
    }
  }
}

/// Exponent e and binary32 fraction bits of a positive finite number's bits; subnormals are normalized.
struct Parts {
  int32_t exponent, fraction;
};
inline Parts parts_of(uint32_t bits) {
  const bool subnormal = bits < 0x00800000u;
  const uint32_t normalized = to_bits(static_cast<float>(static_cast<int32_t>(bits)));  // exact: bits·2^0
  const uint32_t v = subnormal ? normalized : bits;
  return {static_cast<int32_t>(v >> 23) - (subnormal ? 127 + 149 : 127), static_cast<int32_t>(v & 0x7FFFFF)};
}

inline int32_t clamp_exponent(int32_t s, int32_t least, int32_t most) {
  s = s < least ? least : s;
  return s > most ? most : s;
}

/// e8m0 bytes; `exponent_of` gives the unclamped scale exponent from e and the fraction of amax.
template <class ExponentOf>
void store_e8m0(const uint32_t* amax, int64_t n, uint8_t* scales, ExponentOf exponent_of) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t code = clamp_exponent(exponent_of(parts_of(amax[i])), -127, 127) + 127;
    const int32_t of_finite = amax[i] == 0 ? 0 : code;
    scales[i] = static_cast<uint8_t>(amax[i] >= kF32Inf ? 0xFF : of_finite);
  }
}

/// rceil: the smallest s with amax ≤ max_normal·2^s.
inline int32_t rceil_exponent(const ScalePlan& p, Parts a) {
  return a.exponent - p.emax + (a.fraction > p.max_mantissa ? 1 : 0);
}

/// e4m3 bytes of `quotient(a)`: nearest even, saturating; a nonfinite amax becomes NaN.
template <class Quotient>
void store_e4m3(const uint32_t* amax, int64_t n, uint8_t* scales, Quotient quotient) {
  constexpr Codec kScaleCodec{8, 3, 7, 0x7E, 0x7E, 0x7FFFFFFF, 0x7F, 0x1p-6f, 0x1p-9f, 448.0f, Rounding::rne};
  constexpr int64_t kChunk = 256;
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = n - at < kChunk ? n - at : kChunk;
    float b[kChunk];
    uint8_t codes[kChunk];
    int64_t i = 0;
    for (; i < count; ++i) {
      const uint32_t bits = amax[at + i];
      const float of_positive = quotient(from_bits(bits));
      const float of_finite = bits == 0 ? 0.0f : of_positive;  // 0 times an infinite factor would be NaN
      b[i] = bits >= kF32Inf ? kNaN : of_finite;
    }
    for (; i % kStoreLanes != 0; ++i) b[i] = 0.0f;
    encode_array<Rounding::rne, 3>(kScaleCodec, b, nullptr, i, codes);
    for (i = 0; i < count; ++i) scales[at + i] = codes[i];
  }
}

inline float at_most(float x, float limit) { return x > limit ? limit : x; }

void store_amax_scale(const ScalePlan& p, const uint32_t* amax, int64_t n, float* scales) {
  for (int64_t i = 0; i < n; ++i) {
    const float quotient = from_bits(amax[i]) / p.max_normal;
    const float s = quotient < kSmallest ? kSmallest : quotient;
    const float of_finite = amax[i] == 0 ? 1.0f : s;
    scales[i] = amax[i] >= kF32Inf ? kNaN : of_finite;
  }
}

void store_pow2(const ScalePlan& p, const uint32_t* amax, int64_t n, float* scales) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t r = clamp_exponent(rceil_exponent(p, parts_of(amax[i])), -149, 127);
    const uint32_t subnormal = 1u << ((r + 149) & 31), normal = static_cast<uint32_t>(r + 127) << 23;
    const float s = from_bits(r < -126 ? subnormal : normal);
    const float of_finite = amax[i] == 0 ? 1.0f : s;
    scales[i] = amax[i] >= kF32Inf ? kNaN : of_finite;
  }
}

void store_scales(const ScalePlan& p, const uint32_t* amax, int64_t n, void* scales) {
  auto* bytes = static_cast<uint8_t*>(scales);
  auto* floats = static_cast<float*>(scales);
  switch (p.rule) {
    case ScaleRule::floor: return store_e8m0(amax, n, bytes, [&](Parts a) { return a.exponent - p.emax; });
    case ScaleRule::ceil:
      return store_e8m0(amax, n, bytes, [&](Parts a) { return a.exponent - p.emax + (a.fraction != 0 ? 1 : 0); });
    case ScaleRule::even:
      // Rounding to M+1 significant bits, ties up, carries into the exponent from here on.
      return store_e8m0(amax, n, bytes, [&](Parts a) {
        return a.exponent - p.emax + ((a.fraction + (1 << (22 - p.mantissa_bits))) >> 23);
      });
    case ScaleRule::opt:  // the first candidate
    case ScaleRule::rceil: return store_e8m0(amax, n, bytes, [&](Parts a) { return rceil_exponent(p, a); });
    case ScaleRule::te:
      if (p.ue) return store_profile(p, amax, n, bytes);
      return store_e4m3(amax, n, bytes, [&](float a) { return at_most(a * p.block_factor, kFloatMax); });
    case ScaleRule::one:
      if (p.ue) return store_profile(p, amax, n, bytes);
      return store_e4m3(amax, n, bytes, [&](float a) { return a / p.max_normal; });
    case ScaleRule::amax: return store_amax_scale(p, amax, n, floats);
    case ScaleRule::pow2: return store_pow2(p, amax, n, floats);
    default: return store_profile(p, amax, n, bytes);
  }
}

void store_candidates(const ScalePlan& p, const uint32_t* amax, int64_t n, uint8_t* first, uint8_t* second) {
  if (p.rule == ScaleRule::opt) {
    store_e8m0(amax, n, first, [&](Parts a) { return rceil_exponent(p, a); });
    store_e8m0(amax, n, second, [&](Parts a) { return rceil_exponent(p, a) - 1; });
    return;
  }
  store_profile(p, amax, n, first);
  store_four(p, amax, n, second);
}

/// 2^(exponent byte − 127) as a number, NaN for 0xFF.
inline float e8m0_value(uint32_t code) {
  const uint32_t finite = code == 0 ? kHalfSmallestNormal : code << 23;
  return from_bits(code == 0xFF ? kF32CanonicalNaN : finite);
}

void encode_factors(const ScalePlan& p, const void* scales, int64_t n, float* factors) {
  const auto* bytes = static_cast<const uint8_t*>(scales);
  const auto* floats = static_cast<const float*>(scales);
  const float d = p.d, inverse_d = 1.0f / d;
  switch (p.rule) {
    case ScaleRule::te:
      return map_scales(p, bytes, n, factors, [=](float b) {
        const float enc = at_most(1.0f / (b * d), kFloatMax);
        return b == 0 ? 0.0f : enc;
      });
    case ScaleRule::one:
    case ScaleRule::exact: return map_scales(p, bytes, n, factors, [](float b) { return b == 0 ? kInfinity : b; });
    case ScaleRule::torchao:
      return map_scales(p, bytes, n, factors, [=](float b) { return b == 0 ? 0.0f : inverse_d / b; });
    case ScaleRule::modelopt:
      return map_scales(p, bytes, n, factors, [=](float b) { return b == 0 ? kInfinity : b * d; });
    case ScaleRule::fouroversix:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae:
      return map_scales(p, bytes, n, factors, [=](float b) { return b == 0 ? 0.0f : 1.0f / (b * d); });
    case ScaleRule::amax:
    case ScaleRule::pow2:
      for (int64_t i = 0; i < n; ++i) factors[i] = floats[i];
      return;
    default:
      // 2^-s has the byte 254 − code; 2^-127 is subnormal, and exact.
      for (int64_t i = 0; i < n; ++i) factors[i] = e8m0_value(bytes[i] == 0xFF ? 0xFFu : 254u - bytes[i]);
      return;
  }
}

void decode_factors(const ScalePlan& p, const void* scales, int64_t n, float* factors) {
  const auto* bytes = static_cast<const uint8_t*>(scales);
  const auto* floats = static_cast<const float*>(scales);
  switch (p.rule) {
    case ScaleRule::te:
    case ScaleRule::exact:
    case ScaleRule::torchao:
    case ScaleRule::modelopt:
    case ScaleRule::fouroversix:
    case ScaleRule::one:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae: return map_scales(p, bytes, n, factors, [](float b) { return b; });
    case ScaleRule::amax:
    case ScaleRule::pow2:
      for (int64_t i = 0; i < n; ++i) factors[i] = floats[i];
      return;
    default:
      for (int64_t i = 0; i < n; ++i) factors[i] = e8m0_value(bytes[i]);
      return;
  }
}

}  // namespace

extern const ScaleKernels scale_kernels;
const ScaleKernels scale_kernels = {amax_blocks,      amax_columns,   store_scales,
                                    store_candidates, encode_factors, decode_factors};

}  // namespace fp4sim::simd::FP4SIM_ISA
