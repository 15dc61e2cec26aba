// encode (numerics.md §2, §3) of binary64 numbers for every element format, rounding and policy; for ISA units.
#pragma once

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// codes[i] = encode(y[i]) for n elements; random[i] are the element's random words (stochastic roundings).
void encode_wide(const Codec& codec, const double* y, const uint32_t* random, int64_t n, uint32_t* codes);

}  // namespace fp4sim::simd::FP4SIM_ISA
