// The rows of the table of fusions (schedule.h), each defined beside its kernel.
#pragma once

#include "gpu/schedule.h"

namespace fp4sim::gpu {

extern const Fusion kOptimizer;        // clip and adamw of many parameters
extern const Fusion kElements;         // element-wise ops of one tensor
extern const Fusion kElementsAndNorm;  // the same and the layernorm of what they give

}  // namespace fp4sim::gpu
