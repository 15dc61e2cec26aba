// The block rule of numerics.md §7 beyond the budget of exact dots: the dot of a block is one fma chain in binary32.
#pragma once

#include "gpu/launch.h"
#include "gpu/product.cuh"

namespace fp4sim::gpu {

/// Writes y (matrices, a.rows, b.rows) with blocks of `block` elements over a.k > 0: acc = fma(dot, fl(s_a·s_b), acc),
/// panels of 1024.
void matmul_chains(const Operand& a, const Operand& b, const OperandScales& scales_a, const OperandScales& scales_b,
                   int64_t block, const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
