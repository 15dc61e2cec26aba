// Values of scale bytes and the scales of §4.2 beyond te and one with e4m3; for ISA units.
#pragma once

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// Value of a scale byte in e4m3 (sign never set): subnormals are whole steps of 2^-9.
inline float e4m3_value(uint32_t code) {
  const float subnormal = static_cast<float>(static_cast<int32_t>(code)) * 0x1p-9f;
  const float finite = code < 8 ? subnormal : __builtin_bit_cast(float, (code << 20) + (120u << 23));
  return code == 0x7F ? __builtin_bit_cast(float, kF32CanonicalNaN) : finite;
}

/// factors[i] = function(value of bytes[i]) for e4m3 and ue scales.
template <class Function>
inline void map_scales(const ScalePlan& p, const uint8_t* bytes, int64_t n, float* factors, Function function) {
  if (p.ue)
    for (int64_t i = 0; i < n; ++i) factors[i] = function(p.scale_values[bytes[i]]);
  else
    for (int64_t i = 0; i < n; ++i) factors[i] = function(e4m3_value(bytes[i]));
}

/// Scale bytes of every profile, nearest even and saturating in plan.scale_codec; 4over6: b6.
void store_profile(const ScalePlan& plan, const uint32_t* amax, int64_t n, uint8_t* scales);
/// 4over6: b4.
void store_four(const ScalePlan& plan, const uint32_t* amax, int64_t n, uint8_t* scales);

}  // namespace fp4sim::simd::FP4SIM_ISA
