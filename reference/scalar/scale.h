// Scales from the amax of a block or tensor (numerics.md §4.1–4.3), and the number y given to encode.
// amax is finite here: a block with NaN or Inf gets nonfinite_scale_code / NaN instead.
#pragma once

#include <cstdint>

#include "reference/contract/quant_spec.h"
#include "reference/scalar/profiles.h"

namespace fp4sim::scalar {

/// The e8m0 scale exponent s of a block by the spec's rule, clamped to [−127, 127]; amax > 0. `opt` gives its rceil.
int e8m0_exponent(float amax, const ElementFormat& format, ScaleRule rule);

/// The smallest s with amax ≤ max_normal·2^s, not clamped; amax > 0.
int rceil_exponent(float amax, const ElementFormat& format);

/// A, S and d of the two-level profiles (§4.2); S and d are bounded by 2^-149 and FLT_MAX, and 1 for A = 0.
TensorScales tensor_scales(float tensor_amax, const QuantSpec& spec);

/// The scale bytes that a block may have. `second` wins where its error is smaller (opt, 4over6: scale_choice.h);
/// rules of one candidate have it twice.
struct ScaleCandidates {
  uint8_t first, second;
};

/// The candidates of a block: e8m0 s + 127, or e4m3 or ue codes of the profile. amax = 0 gives code 0.
ScaleCandidates scale_candidates(float amax, const TensorScales& tensor, const QuantSpec& spec);

/// The byte that marks a block with NaN or Inf (e8m0 0xFF, e4m3 0x7F, ue all ones).
uint8_t nonfinite_scale_code(const QuantSpec& spec);

/// A binary32 scale (§4.3): 1 for amax = 0.
float fp32_scale(float amax, const QuantSpec& spec);

/// y, the very number given to encode and to the estimators, from x, the block's decoded scale and the tensor's scales
/// (A and d are read). A binary32 number, under e8m0 x·2^-s, under `exact` a binary64 quotient; +sr34 multiplies it by
/// 0.75, exactly but under `exact`.
double scaled_value(float x, float scale, const TensorScales& tensor, const QuantSpec& spec);

}  // namespace fp4sim::scalar
