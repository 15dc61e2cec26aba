// Gradient multipliers m(y) of the estimators (numerics.md §5), in binary64 with one final rounding.
#pragma once

#include "reference/contract/element_format.h"
#include "reference/contract/estimator.h"

namespace fp4sim::scalar {

/// m(y), rounded once to binary32, for a y that was given to encode of `format`. A NaN y gives 0 except under ste.
float estimator_multiplier(double y, const Estimator& estimator, const ElementFormat& format);

/// The soft forward value f with the sign of y, in binary64: Δ_i·(σ(β(|y|−c_i)) − σ(−β(|y|+c_i))) over the positive
/// midpoints c_i, ascending.
double soft_value(double y, double beta, const ElementFormat& format);

}  // namespace fp4sim::scalar
