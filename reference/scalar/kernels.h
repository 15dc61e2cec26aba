// One kernel for every row of op.def: the contract is the text above the row there. A missing kernel does not link.
#pragma once

#include "reference/contract/backend.h"

namespace fp4sim::scalar::kernels {

#define FP4SIM_OP(id, inputs, outputs) void id(const NodeCall& call);
#include "reference/contract/op.def"
#undef FP4SIM_OP

}  // namespace fp4sim::scalar::kernels
