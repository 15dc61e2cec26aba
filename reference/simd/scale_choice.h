// The scale rules that try two scales a block and keep the one with the smaller error: opt (numerics.md §4.1) and
// 4over6 (§4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/parallel.h"

namespace fp4sim::simd {

/// True if the rule chooses between two candidates.
bool chooses_scale(ScaleRule rule);

/// Writes the chosen scale bytes of q (codes are not touched). amax: of every block in the order of the scales; random
/// and first: random bits of the spec's stochastic rounding and the index of x[0] in the logical tensor.
void store_chosen_scales(const Tensor& q, const float* x, const ScalePlan& plan, const std::vector<uint32_t>& amax,
                         const RandomBits& random, int64_t first, const Context& context);

}  // namespace fp4sim::simd
