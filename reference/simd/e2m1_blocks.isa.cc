// Scales and e2m1 codes of blocks of 16 and 32 elements in one pass over x: as many blocks at a time as a vector has
// lanes, a lane their amax, scale and factor.
#include "reference/simd/e2m1_encode.h"
#include "reference/simd/encode.h"

namespace fp4sim::simd::FP4SIM_ISA {

#if defined(FP4SIM_ISA_sse2)

namespace {
int64_t quantize_blocks(const ScalePlan&, const EncodeJob&, const float*, int64_t, int64_t, void*, uint8_t*) {
  return 0;
}
}  // namespace

#else

namespace {

constexpr int kBlocks = kF32Width;
constexpr float kFloatMax = 0x1.fffffep+127f;

#if defined(FP4SIM_ISA_avx512)

inline I32 larger(__m512i a, __m512i b) { return _mm512_max_epi32(a, b); }
inline I32 merge32(I32 a, I32 b) { return larger(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)); }
inline I32 merge64(I32 a, I32 b) { return larger(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)); }

/// Lane b: the largest lane of v[b].
inline I32 largest_lanes(const I32 (&v)[kBlocks]) {
  I32 four[4];  // lanes b of every 128 bits: from v[4j + b]
  for (int j = 0; j < 4; ++j) four[j] = merge64(merge32(v[4 * j], v[4 * j + 1]), merge32(v[4 * j + 2], v[4 * j + 3]));
  const auto halves = [](__m512i a, __m512i b) {
    return larger(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
  };
  const __m512i a = halves(four[0], four[1]), b = halves(four[2], four[3]);
  return larger(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

inline void store_bytes(I32 codes, uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(codes));
}

#else

inline I32 larger(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
inline I32 merge32(I32 a, I32 b) { return larger(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)); }
inline I32 merge64(I32 a, I32 b) { return larger(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)); }

/// Lane b: the largest lane of v[b].
inline I32 largest_lanes(const I32 (&v)[kBlocks]) {
  const __m256i a = merge64(merge32(v[0], v[1]), merge32(v[2], v[3]));
  const __m256i b = merge64(merge32(v[4], v[5]), merge32(v[6], v[7]));
  return larger(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

inline void store_bytes(I32 codes, uint8_t* to) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

#endif

/// Magnitude bits of the amax of kBlocks blocks, one a lane.
template <int kBlock>
inline I32 amax_lanes(const float* x) {
  I32 best[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    best[b] = as_i32(magnitude(F32::load_unaligned(x + b * kBlock)));
    for (int j = kF32Width; j < kBlock; j += kF32Width)
      best[b] = xsimd::max(best[b], as_i32(magnitude(F32::load_unaligned(x + b * kBlock + j))));
  }
  return largest_lanes(best);
}

inline F32 nan_lanes() { return as_f32(I32(static_cast<int32_t>(kF32CanonicalNaN))); }
inline auto is_finite(I32 amax) { return as_f32(amax) < F32(__builtin_inff()); }
inline I32 where(F32Mask condition, I32 yes, I32 no) {
  return as_i32(xsimd::select(condition, as_f32(yes), as_f32(no)));
}

/// floor, ceil, even and rceil of §4.1: exponents grow by one from a certain fraction on, and a number added to amax's
/// bits makes it carry there. Subnormal amax and zero come out below the least scale, as emax ≥ 2.
class E8m0Scales {
 public:
  explicit E8m0Scales(const ScalePlan& p) : emax_(p.emax), carry_(carry(p)) {}
  I32 codes(I32 amax) const {
    const I32 code = xsimd::max(((amax + carry_) >> 23) - emax_, I32(0));
    return where(is_finite(amax), code, I32(0xFF));
  }
  /// 2^-s, normal: codes stay below 254.
  F32 factors(I32 codes) const {
    return as_f32(xsimd::select(codes == I32(0xFF), as_i32(nan_lanes()), (I32(254) - codes) << 23));
  }

 private:
  static int32_t carry(const ScalePlan& p) {
    switch (p.rule) {
      case ScaleRule::ceil: return 0x7FFFFF;
      case ScaleRule::even: return 1 << (22 - p.mantissa_bits);
      case ScaleRule::rceil: return 0x7FFFFF - p.max_mantissa;
      default: return 0;
    }
  }
  I32 emax_, carry_;
};

/// te of §4.2 with e4m3 scales.
class TeScales {
 public:
  explicit TeScales(const ScalePlan& p) : lanes_(kScaleCodec), block_factor_(p.block_factor), d_(p.d) {}
  I32 codes(I32 amax) const {
    const F32 b = as_f32(amax) * block_factor_;
    const F32 finite = xsimd::select(as_f32(amax) == F32(0.0f), F32(0.0f), at_most_float_max(b));
    return encode_lanes<Rounding::rne, 3>(lanes_, xsimd::select(is_finite(amax), finite, nan_lanes()), I32(0));
  }
  F32 factors(I32 codes) const {
    const F32 subnormal = xsimd::to_float(codes) * F32(0x1p-9f);
    const F32 b = as_f32(xsimd::select(codes < I32(8), as_i32(subnormal), (codes << 20) + I32(120 << 23)));
    const F32 factor = xsimd::select(b == F32(0.0f), F32(0.0f), at_most_float_max(F32(1.0f) / (b * d_)));
    return as_f32(xsimd::select(codes == I32(0x7F), as_i32(nan_lanes()), as_i32(factor)));
  }

 private:
  static constexpr Codec kScaleCodec{8, 3, 7, 0x7E, 0x7E, 0x7FFFFFFF, 0x7F, 0x1p-6f, 0x1p-9f, 448.0f, Rounding::rne};
  static F32 at_most_float_max(F32 x) { return xsimd::select(x > F32(kFloatMax), F32(kFloatMax), x); }
  EncodeLanes lanes_;
  F32 block_factor_, d_;
};

template <int kBlock, class Scales>
int64_t quantize(const Scales& scales, const float* x, int64_t n, uint8_t* scale_bytes, uint8_t* codes) {
  constexpr int64_t kStep = kBlocks * kBlock, kAhead = 256, kLine = 16;  // elements
  static_assert(kStep % kGroupElements == 0);
  const int64_t end = n / kStep * kStep;
  for (int64_t at = 0; at < end; at += kStep) {
    const I32 scale_codes = scales.codes(amax_lanes<kBlock>(x + at));
    store_bytes(scale_codes, scale_bytes + at / kBlock);
    alignas(64) float factors[kBlocks];
    scales.factors(scale_codes).store_aligned(factors);
    for (int64_t i = 0; i < kStep; i += kGroupElements) {
      for (int64_t j = 0; j < kGroupElements; j += kLine) _mm_prefetch(x + at + i + j + kAhead, _MM_HINT_T0);
      encode_group(
          at + i, [&](int64_t j) { return F32::load_unaligned(x + j) * F32(factors[(j - at) / kBlock]); }, codes);
    }
  }
  return end;
}

template <class Scales>
int64_t quantize(const Scales& scales, const float* x, int64_t n, int64_t block, uint8_t* scale_bytes, uint8_t* codes) {
  if (block == 16) return quantize<16>(scales, x, n, scale_bytes, codes);
  if (block == 32) return quantize<32>(scales, x, n, scale_bytes, codes);
  return 0;
}

int64_t quantize_blocks(const ScalePlan& plan, const EncodeJob& job, const float* x, int64_t n, int64_t block,
                        void* scales, uint8_t* codes) {
  if (!encodes_e2m1(job)) return 0;
  auto* bytes = static_cast<uint8_t*>(scales);
  switch (plan.rule) {
    case ScaleRule::floor:
    case ScaleRule::ceil:
    case ScaleRule::even:
    case ScaleRule::rceil: return quantize(E8m0Scales(plan), x, n, block, bytes, codes);
    case ScaleRule::te: return plan.ue ? 0 : quantize(TeScales(plan), x, n, block, bytes, codes);
    default: return 0;
  }
}

}  // namespace

#endif

extern const BlockKernels block_kernels;
const BlockKernels block_kernels = {quantize_blocks};

}  // namespace fp4sim::simd::FP4SIM_ISA
