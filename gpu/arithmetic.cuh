// Single operations of binary32 and binary64 whose library spelling differs between device and host.
#pragma once

#include <cmath>

#include "gpu/bits.cuh"

namespace fp4sim::gpu {

FP4SIM_HD float fma32(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

FP4SIM_HD float sqrt32(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

FP4SIM_HD double sqrt64(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

/// The larger of two values: NaN wins, max(+0, −0) = +0 (numerics.md §1). Any order of several gives the same bits.
FP4SIM_HD float max_of(float a, float b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == 0 && b == 0) return float_of(bits_of(a) & bits_of(b));
  return a < b ? b : a;
}

/// bf16 of a float: nearest even, overflow to Inf, NaN canonical (numerics.md §2, policy ieee).
FP4SIM_HD uint16_t bf16_of(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & kF32MagnitudeMask) > kF32Inf) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
FP4SIM_HD float f32_of_bf16(uint16_t bits) { return float_of(uint32_t{bits} << 16); }

}  // namespace fp4sim::gpu
