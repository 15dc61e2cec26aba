// Products on the warpgroup instructions of compute capability 9.0 (numerics.md §7).
#pragma once

#include "gpu/launch.h"
#include "gpu/matmul_int8.h"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// True if the current device has the instructions.
bool has_warpgroup_products();

/// Writes y by the vector rule from int8 units; a unit of the dots is 2^exponent.
void multiply_units(const WidePair& pair, const ProductShape& shape, int exponent, const Epilogue& epilogue, float* y,
                    Context& context);

/// Writes y by the block rule for blocks of 32 from numbers with the scales inside, except where they are unfit, which
/// leaves y as it is. The epilogue's vector scales must be empty.
void multiply_folded(const FoldedPair& pair, const ProductShape& shape, const Epilogue& epilogue, float* y,
                     Context& context);

}  // namespace fp4sim::gpu
