// The rows of the table of fusions (schedule.h), each defined beside its kernel.
#pragma once

#include "gpu/schedule.h"

namespace fp4sim::gpu {

extern const Fusion kOptimizer;        // clip and adamw of many parameters
extern const Fusion kQuantizeBoth;     // two quantizations of one tensor
extern const Fusion kProduct;          // a product, the sum with a bias and the permute behind it
extern const Fusion kNormGradSums;     // layernorm_grad and the sums of gradients before and behind it
extern const Fusion kElements;         // element-wise ops of one tensor
extern const Fusion kTiles;            // the readers of one matrix that quantize it or sum its columns
extern const Fusion kNormTiles;        // residual sums, their layernorm and its two quantizations
extern const Fusion kElementsAndNorm;  // the same and the layernorm of what they give

}  // namespace fp4sim::gpu
