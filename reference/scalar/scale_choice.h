// Rules that try two scales for a block and keep the one with the smaller error: opt (numerics.md §4.1) and 4over6
// (§4.2).
#pragma once

#include <vector>

#include "reference/contract/value_type.h"
#include "reference/scalar/random_bits.h"
#include "reference/scalar/scale.h"

namespace fp4sim::scalar {

/// The scale byte of every block of x: the second candidate where its error is strictly smaller, else the first.
/// Errors are summed in row-major order, which is the order inside of every kind of block. `random` is used by 4over6:
/// both candidates round with the same bits; opt compares under rne where the spec is stochastic. Under +sr34 the
/// errors are those against 0.75·x.
std::vector<uint8_t> choose_scales(const std::vector<ScaleCandidates>& candidates, const float* x,
                                   const ValueType& type, const TensorScales& tensor, const ElementBits& random);

}  // namespace fp4sim::scalar
