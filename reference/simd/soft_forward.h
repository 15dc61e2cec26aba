// The soft forward value (numerics.md §5), for ISA units.
#pragma once

#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// EstimatorKernels::soft_forward.
void soft_forward(const EstimatorPlan& plan, const ValuePlan& value, const float* x, int64_t n, BlockFactors f,
                  BlockFactors scales, const float* d, float* out);

}  // namespace fp4sim::simd::FP4SIM_ISA
