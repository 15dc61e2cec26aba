// Row kernels of causal_softmax and cross_entropy: one row a call.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct SoftmaxKernels {
  /// Row of `all` elements of which the first `used` count; p beyond them is +0.
  void (*softmax)(const float* z, float scale, float* p, int64_t used, int64_t all);
  void (*softmax_grad)(const float* dp, const float* p, float scale, float* dz, int64_t used, int64_t all);
  /// The loss of one row of n logits.
  float (*cross_entropy)(const float* z, int64_t target, int64_t n);
  void (*cross_entropy_grad)(const float* z, int64_t target, float weight, float* dz, int64_t n);
};

FP4SIM_LEVEL_TABLE(SoftmaxKernels, softmax_kernels)

}  // namespace fp4sim::simd
