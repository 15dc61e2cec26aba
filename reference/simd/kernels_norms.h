// Row kernels of the norms and of rope: `rows` rows of `cols` elements, contiguous.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct NormKernels {
  void (*rmsnorm)(const float* x, const float* g, float* y, int64_t rows, int64_t cols, float eps);
  /// dx, and r of every row for the column sums.
  void (*rmsnorm_grad)(const float* dy, const float* x, const float* g, float* dx, float* r, int64_t rows, int64_t cols,
                       float eps);
  void (*layernorm)(const float* x, const float* g, const float* b, float* y, int64_t rows, int64_t cols, float eps);
  /// dx, and mean and r of every row for the column sums.
  void (*layernorm_grad)(const float* dy, const float* x, const float* g, float* dx, float* mean, float* r,
                         int64_t rows, int64_t cols, float eps);
};

FP4SIM_LEVEL_TABLE(NormKernels, norm_kernels)

/// One row of rope: x and y of 2·half elements, tables of `half`; sign −1 gives the gradient.
struct RopeKernels {
  void (*interleaved)(const float* x, const float* cos, const float* sin, float sign, float* y, int64_t half);
  void (*split)(const float* x, const float* cos, const float* sin, float sign, float* y, int64_t half);
};

FP4SIM_LEVEL_TABLE(RopeKernels, rope_kernels)

}  // namespace fp4sim::simd
