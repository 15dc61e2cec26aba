// Exact dots of integers wider than int8, by the vector rule, on the warpgroup instructions (numerics.md §7).
#pragma once

#include "gpu/digit_operand.h"
#include "gpu/matmul_int8.h"

namespace fp4sim::gpu {

/// Writes y by the vector rule; a unit of the dots is 2^exponent, and all of them are below 2^53 units. The device must
/// have warpgroup products.
void multiply_digits(const DigitPair& pair, const ProductShape& shape, int exponent, const Epilogue& epilogue, float* y,
                     Context& context);

}  // namespace fp4sim::gpu
