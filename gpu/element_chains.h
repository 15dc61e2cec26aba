// Chains of element-wise nodes as programs (elements.cuh).
#pragma once

#include "gpu/elements.cuh"
#include "gpu/schedule.h"

namespace fp4sim::gpu {

/// bf16 numbers: plain, or packed without scales and transforms, where the codes are the numbers.
bool is_bf16(const ValueType& type);

/// True if an instruction does what the node does.
bool runs_as_element(const NodeCall& call);

/// True if the node may follow the instructions of the chain, whose last node it reads.
bool extends_elements(const Chain& chain, const NodeCall& next);

/// The inputs of the chain's nodes beside what runs through it.
int other_inputs(const Chain& chain);

/// The program of the chain's first `count` nodes.
ElementProgram program_of(const Chain& chain, size_t count);

}  // namespace fp4sim::gpu
