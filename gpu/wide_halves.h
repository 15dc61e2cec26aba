// Operands of e2m1 with e4m3 scales for 16 k as the fp16 numbers that warpgroup products read.
#pragma once

#include "gpu/sum_limits.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

struct HalvesPair {
  WidePair wide;     // value·scale
  ValueBounds a, b;  // their bands are left to the caller
};

/// Both operands, in scratch.
HalvesPair widen_halves(const NarrowOperand& a, const NarrowOperand& b, Context& context);

}  // namespace fp4sim::gpu
