// The profiles of e4m3 and ue scales (numerics.md §4.2), one row each: tensor scale, block scale, the y of encode.
#pragma once

#include "reference/contract/quant_spec.h"

namespace fp4sim::scalar {

/// What the whole tensor gives to its blocks (§4.2). S is used for block scales only; A and d for y too.
struct TensorScales {
  float amax = 0;    // A
  float encode = 1;  // S
  float decode = 1;  // d, the stored tensor scale
};

/// smax and emx of §4.2: the largest values of the scale format and of the element.
struct Maxima {
  float scale, element;
};

struct Profile {
  ScaleRule rule;
  /// S and d from A > 0, before they are bounded; nullptr: the profile has no tensor scale.
  TensorScales (*tensor)(float tensor_amax, const Maxima&);
  /// The number whose nearest scale code is the block's, from its amax a.
  double (*block)(float a, const TensorScales&, const Maxima&);
  /// The same of the second candidate of 4over6; nullptr: the profile has one.
  double (*second_block)(float a, const TensorScales&, const Maxima&);
  /// y before an infinite or NaN result is replaced; x ≠ 0 and b ≠ 0.
  double (*y)(float x, float b, const TensorScales&, const Maxima&);
};

/// The row of the spec's rule; an Error for rules that are no profile.
const Profile& profile_of(const QuantSpec& spec);

/// smax and emx of a spec with e4m3 or ue scales.
Maxima maxima_of(const QuantSpec& spec);

}  // namespace fp4sim::scalar
