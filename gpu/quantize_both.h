// Two quantizations of the same values as one: the gradient of a layer's output, for instance, is quantized along its
// rows for one product and along its columns for the next.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

/// True if both nodes are quantizations of one tensor, by one deterministic spec, that a kernel makes together: the
/// same bytes twice (one scale for the tensor, or 16 bits without a scale), or blocks along either axis.
bool quantize_both_takes(const NodeCall& a, const NodeCall& b);

/// The packed values of two nodes that quantize_both_takes, with one reading of x (two where the codes need its amax).
void quantize_both(const NodeCall& a, const NodeCall& b, Context& context);

}  // namespace fp4sim::gpu
