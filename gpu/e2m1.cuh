// e2m1 codes of binary32 numbers by a few integer operations, for the fused kernels.
#pragma once

#include "gpu/bits.cuh"

namespace fp4sim::gpu {

/// The e2m1 code nearest to y, ties to the even code, saturated; y is no NaN, −0 gives 0x8.
FP4SIM_HD uint32_t encode_e2m1_rne(float y) {
  constexpr uint32_t kQuarter = 0x3E800000u, kThreeQuarters = 0x3F400000u, kOne = 0x3F800000u, kSix = 0x40C00000u;
  constexpr int kDropped = 22;  // fraction bits that a code has not got
  const uint32_t bits = bits_of(y), exact = bits & kF32MagnitudeMask;
  const uint32_t magnitude = exact < kSix ? exact : kSix;
  const uint32_t sign = (bits >> 28) & 8u;
  // From 1 on a code is the exponent and the first fraction bit; 1 itself is code 2.
  const uint32_t up = (magnitude >> kDropped) & 1u;
  const uint32_t normal = ((magnitude + ((1u << (kDropped - 1)) - 1u) + up) >> kDropped) - (kOne >> kDropped) + 2u;
  const uint32_t small = (magnitude > kQuarter ? 1u : 0u) + (magnitude >= kThreeQuarters ? 1u : 0u);
  return sign | (magnitude < kOne ? small : normal);
}

/// The codes of eight numbers, the first in the low nibble.
FP4SIM_HD uint32_t encode_e2m1_rne(const float (&y)[8]) {
  uint32_t codes = 0;
  for (int i = 0; i < 8; ++i) codes |= encode_e2m1_rne(y[i]) << (4 * i);
  return codes;
}

}  // namespace fp4sim::gpu
