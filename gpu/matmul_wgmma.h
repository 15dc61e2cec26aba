// Products on the warpgroup instructions of compute capability 9.0 (numerics.md §7).
#pragma once

#include "gpu/launch.h"
#include "gpu/matmul_direct.cuh"
#include "gpu/matmul_int8.h"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// True if the current device has the instructions.
bool has_warpgroup_products();

/// True for products so small, of no long k, that certificates would cost more than they save.
bool is_small(const ProductShape& shape);

/// Writes y by the vector rule from int8 units below 2^bits of a product; a unit of the dots is 2^exponent.
void multiply_units(const WidePair& pair, const ProductShape& shape, int bits, int exponent, const Epilogue& epilogue,
                    float* y, Context& context);

/// Writes y by the block rule for blocks of 32: certified tiles as one sum of integers, the others from numbers with
/// the scales inside, or where these are unfit from the packed operands. The epilogue's vector scales must be empty;
/// the matrices of a group are its products.
void multiply_folded(const FoldedPair& pair, const DirectProduct& direct, const ProductShape& shape,
                     const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
