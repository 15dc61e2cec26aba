// e2m1 codes of binary32 numbers by clamped sums, for the fused kernels.
#pragma once

#include "gpu/arithmetic.cuh"

namespace fp4sim::gpu {

/// v clamped to [0, 1], NaN to 0: on the device a modifier of the instruction that gives v.
FP4SIM_HD float saturated(float v) {
#ifdef __CUDA_ARCH__
  return __saturatef(v);
#else
  return v > 0 ? (v < 1 ? v : 1.0f) : 0.0f;
#endif
}

/// A word whose low byte is the e2m1 code nearest to |y|, ties to the even code, saturated; y is no NaN. With a = |y|
/// the code before rounding is 4 of [0, 2), 2 of [2, 4) and 1 of [4, 6): a sum of three clamped parts of which at most
/// one is no whole number, so that sums that begin at 2^23 round it once, and leave it in the low bits.
FP4SIM_HD uint32_t e2m1_word(float y) {
  const float half = fabsf(y) * 0.5f;
  const float to_two = fma32(saturated(half), 4.0f, 0x1p23f);
  const float to_four = fma32(saturated(half - 1.0f), 2.0f, to_two);
  return bits_of(to_four + saturated(half - 2.0f));
}

/// a·b + c and a + c rounded toward zero; c ≥ 2^23 and the results are below 2^24.
FP4SIM_HD float fma_toward_zero(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rz(a, b, c);
#else
  return static_cast<float>(std::floor(static_cast<double>(a) * b + c));
#endif
}

/// The e2m1 code of |y| by sr32: up if `random` lies below the 32 bits that follow the lower code (§3); y is finite. As
/// in e2m1_word the code before rounding is a sum of three parts, of which at most one is no whole number; all the
/// differences are exact.
FP4SIM_HD uint32_t e2m1_sr32(float y, uint32_t random) {
  constexpr float kIntegers = 0x1p23f;
  const float half = fabsf(y) * 0.5f;
  const float two = saturated(half), four = saturated(half - 1.0f), six = saturated(half - 2.0f);
  const float lower = fma_toward_zero(six, 1.0f, fma_toward_zero(four, 2.0f, fma_toward_zero(two, 4.0f, kIntegers)));
  const float whole = lower - kIntegers;
  const float rest = fma32(four, 2.0f, fma32(two, 4.0f, -whole)) + six;  // [0, 1)
  const auto threshold = static_cast<uint32_t>(rest * 0x1p32f);
  return (bits_of(lower) & 7u) + (random < threshold ? 1u : 0u);
}

}  // namespace fp4sim::gpu
