// One entry for every row of op.def: unpacks the node and puts its kernels on the stream. backend.cu holds them as one
// table, so a row without an entry does not link.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu::ops {

#define FP4SIM_OP(id, inputs, outputs) void id(const NodeCall& call, Context& context);
#include "reference/contract/op.def"
#undef FP4SIM_OP

}  // namespace fp4sim::gpu::ops
