// Block scales of the profiles of numerics.md §4.2 in any scale format: b in binary64, then the wide encoder.
#include "reference/simd/scale_profiles.h"

#include "reference/simd/wide_encode.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

constexpr float kLargest = 0x1.fffffep+127f;

inline float clamped(float x, float least, float most) {
  const float above = x < least ? least : x;
  return above > most ? most : above;
}

/// Scale bytes of b = quotient(a), a the block's amax; 0 for a = 0, NaN for a nonfinite block.
template <class Quotient>
void store(const ScalePlan& p, const uint32_t* amax, int64_t n, uint8_t* scales, Quotient quotient) {
  constexpr int64_t kChunk = 256;
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = n - at < kChunk ? n - at : kChunk;
    double b[kChunk];
    uint32_t codes[kChunk];
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = amax[at + i];
      const double of_positive = static_cast<double>(quotient(__builtin_bit_cast(float, bits)));
      const double of_finite = bits == 0 ? 0.0 : of_positive;
      b[i] = bits >= kF32Inf ? __builtin_nan("") : of_finite;
    }
    encode_wide(p.scale_codec, b, nullptr, count, codes);
    for (int64_t i = 0; i < count; ++i) scales[at + i] = static_cast<uint8_t>(codes[i]);
  }
}

}  // namespace

void store_profile(const ScalePlan& p, const uint32_t* amax, int64_t n, uint8_t* scales) {
  const float d = p.d, s = p.multiplier, six_d = 6.0f * d, factor = p.block_factor, emx = p.max_normal;
  switch (p.rule) {
    case ScaleRule::te:
      return store(p, amax, n, scales, [=](float a) { return a * factor > kLargest ? kLargest : a * factor; });
    case ScaleRule::exact:
      return store(p, amax, n, scales, [&](float a) { return static_cast<double>(a) * p.scale_max / double{p.amax}; });
    case ScaleRule::torchao:
      return store(p, amax, n, scales, [=](float a) { return clamped(a / 6.0f / d, 0x1p-6f, 448.0f); });
    case ScaleRule::modelopt:
      return store(p, amax, n, scales, [=](float a) { return clamped(a / six_d, 0x1p-9f, 448.0f); });
    case ScaleRule::fouroversix:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae: return store(p, amax, n, scales, [=](float a) { return a / 6.0f * s; });
    case ScaleRule::one: return store(p, amax, n, scales, [=](float a) { return a / emx; });
    default: __builtin_unreachable();
  }
}

void store_four(const ScalePlan& p, const uint32_t* amax, int64_t n, uint8_t* scales) {
  const float s = p.multiplier;
  store(p, amax, n, scales, [=](float a) { return 1.5f * (a / 6.0f * s); });
}

}  // namespace fp4sim::simd::FP4SIM_ISA
