// e2m1 codes of binary32 numbers by three sums, for the fused kernels.
#pragma once

#include "gpu/arithmetic.cuh"

namespace fp4sim::gpu {

/// A word whose low byte is the e2m1 code nearest to |y|, ties to the even code, saturated; y is no NaN. Each of the
/// grids with steps 1/2, 1 and 2 goes on beyond its own binades, and the least of their codes is the one of the step
/// that holds at |y|. 2^23 in a sum rounds it to an integer, which is left in the low bits.
FP4SIM_HD uint32_t e2m1_word(float y) {
  constexpr float kIntegers = 0x1p23f;
  const float a = float_of(magnitude_bits(y));
  const float halves = fma32(a, 2.0f, kIntegers);
  const float ones = a + (kIntegers + 2.0f);
  const float twos = fma32(a, 0.5f, kIntegers + 4.0f);
  return bits_of(fminf(fminf(halves, ones), fminf(twos, kIntegers + 7.0f)));
}

}  // namespace fp4sim::gpu
