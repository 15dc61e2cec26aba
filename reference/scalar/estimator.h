// Gradient multipliers m(y) of the estimators (numerics.md §5), in binary64 with one final rounding.
#pragma once

#include "reference/contract/element_format.h"
#include "reference/contract/estimator.h"

namespace fp4sim::scalar {

/// m(y), rounded once to binary32, for a y that was given to encode of `format`. A NaN y gives 0 except under ste.
/// An Error for ewgs, which is no multiplier.
float estimator_multiplier(double y, const Estimator& estimator, const ElementFormat& format);

/// dx of ewgs: fl(dy·fl(1 + fl(δ·fl(sign(dy)·fl(y − code_value))))), δ rounded to binary32.
float ewgs_gradient(float dy, double y, float code_value, double delta);

/// The real number a − b rounded once to binary32.
float difference_f32(double a, double b);

/// The soft forward value f with the sign of y, in binary64: Δ_i·(σ(β(|y|−c_i)) − σ(−β(|y|+c_i))) over the positive
/// midpoints c_i, ascending.
double soft_value(double y, double beta, const ElementFormat& format);

}  // namespace fp4sim::scalar
