// The block rule for 4-bit codes in blocks of 32, straight from the packed operands: the way for the few products whose
// scales do not fit into the operands of faster kernels.
#pragma once

#include "gpu/launch.h"
#include "gpu/matmul_int8.h"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// Writes y by the block rule if one of `flags` is set, else leaves it as it is. A unit of the dots is 2^exponent.
void matmul_direct(const NarrowOperand& a, const NarrowOperand& b, const UnfitFlags& flags, int exponent,
                   const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
