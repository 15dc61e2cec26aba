// The exact block and vector rules of numerics.md §7 for elements of any span within the budget: dots in binary64, in
// which sums of exact products are exact in any order.
#pragma once

#include "gpu/launch.h"
#include "gpu/product.cuh"

namespace fp4sim::gpu {

/// Writes y (matrices, a.rows, b.rows) by the block rule with blocks of `block` (a multiple of 16), or (block 0) by the
/// vector rule, whose scales the epilogue multiplies; a.k > 0. Elements that are not finite are NaN.
void matmul_f64(const Operand& a, const Operand& b, const OperandScales& scales_a, const OperandScales& scales_b,
                int64_t block, const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
