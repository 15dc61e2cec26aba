// Decoded values of a packed tensor, for dequantize and for products that decode an operand first.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

/// Writes x̂ = fl(fl(code·scale)·d) of every element in the order of q's shape (numerics.md §4.1–4.3).
void decode_packed(const Tensor& q, float* x, Context& context);

}  // namespace fp4sim::gpu
