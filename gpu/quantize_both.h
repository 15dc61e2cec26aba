// Two quantizations of the same values that give the same bytes as one: without scales, or with one for the tensor, the
// axis does not matter.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

/// True if both nodes are quantizations of one tensor, by one deterministic spec, that a kernel makes together: one
/// scale for the tensor, or 16 bits without a scale.
bool quantize_both_takes(const NodeCall& a, const NodeCall& b);

/// The packed values of two nodes that quantize_both_takes, with one reading of x (two where the codes need its amax).
void quantize_both(const NodeCall& a, const NodeCall& b, Context& context);

}  // namespace fp4sim::gpu
