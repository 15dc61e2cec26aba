// Scales from the amax of a block or tensor (numerics.md §4.1–4.3), and the number y given to encode.
// amax is finite here: a block with NaN or Inf gets nonfinite_scale_code / NaN instead.
#pragma once

#include <cstdint>

#include "reference/contract/quant_spec.h"

namespace fp4sim::scalar {

/// The e8m0 scale exponent s of a block by the spec's rule, clamped to [−127, 127]; amax > 0.
int e8m0_exponent(float amax, const ElementFormat& format, ScaleRule rule);

/// The smallest s with amax ≤ max_normal·2^s, not clamped; amax > 0.
int rceil_exponent(float amax, const ElementFormat& format);

/// S and d of the two-level profiles (§4.2), from the tensor amax A.
struct TensorScales {
  float encode;  // S
  float decode;  // d = fl(1/S), the stored tensor scale
};
TensorScales tensor_scales(float tensor_amax, const QuantSpec& spec);

/// The byte of a block's scale: e8m0 s + 127, or the e4m3 code of the profile. amax = 0 gives code 0.
uint8_t block_scale_code(float amax, const TensorScales& tensor, const QuantSpec& spec);

/// The byte that marks a block with NaN or Inf (e8m0 0xFF, e4m3 0x7F).
uint8_t nonfinite_scale_code(const QuantSpec& spec);

/// A binary32 scale (§4.3): 1 for amax = 0.
float fp32_scale(float amax, const QuantSpec& spec);

/// y, the very number given to encode and to the estimators, from x, the block's decoded scale and the tensor scale d
/// (1 where there is none). Exact in binary64: a binary32 number, or x·2^-s for e8m0.
double scaled_value(float x, float scale, float d, const QuantSpec& spec);

}  // namespace fp4sim::scalar
