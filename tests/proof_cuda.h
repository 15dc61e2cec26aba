// The host conversions of CUDA's cuda_fp4.h, cuda_fp6.h and cuda_fp8.h as an oracle from outside.
#pragma once

#include <cstdint>

#include "reference/contract/element_format.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::test {

/// One conversion: FP4 and FP6 take nearest and zero and always saturate, FP8 takes nearest with or without saturation.
struct CudaConversion {
  const char* name;
  ElementFormat format;
  Rounding rounding;
  bool ieee;
};
inline constexpr CudaConversion kCudaConversions[] = {
    {"e2m1_rne", kE2m1, Rounding::rne, false}, {"e2m1_rtz", kE2m1, Rounding::rtz, false},
    {"e2m3_rne", kE2m3, Rounding::rne, false}, {"e2m3_rtz", kE2m3, Rounding::rtz, false},
    {"e3m2_rne", kE3m2, Rounding::rne, false}, {"e3m2_rtz", kE3m2, Rounding::rtz, false},
    {"e4m3_rne", kE4m3, Rounding::rne, false}, {"e4m3_rne_ieee", kE4m3, Rounding::rne, true},
    {"e5m2_rne", kE5m2, Rounding::rne, false}, {"e5m2_rne_ieee", kE5m2, Rounding::rne, true},
};

/// False in a build that did not find the headers: the tests then report SKIPPED.
bool cuda_headers_installed();

/// CUDA's code of x, with fp4sim's choices where the header differs by policy (numerics.md §1, §2): the NaN of E5M2 is
/// 0x7E (0x7F there), and a NaN has no sign (there an overflow to NaN of E4M3 keeps it).
uint32_t cuda_code(const CudaConversion& conversion, float x);

/// CUDA's value of a code.
float cuda_value(const ElementFormat& format, uint32_t code);

/// CUDA's e8m0 code of a positive finite amax: toward zero is the floor rule of powers of two, up the ceil rule.
uint32_t cuda_e8m0_code(float amax, bool up);

}  // namespace fp4sim::test
