// One entry for every row of op.def: unpacks the node, splits the work over threads and calls the level's kernels.
#pragma once

#include "reference/contract/backend.h"
#include "reference/simd/parallel.h"

namespace fp4sim::simd::ops {

#define FP4SIM_OP(id, inputs, outputs) void id(const NodeCall& call, const Context& context);
#include "reference/contract/op.def"
#undef FP4SIM_OP

}  // namespace fp4sim::simd::ops
