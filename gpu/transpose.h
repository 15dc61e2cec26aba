// Transposed copies of f32 matrices, so that kernels need one layout only.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

/// Writes `out` (matrices, cols, rows) from `in` (matrices, rows, cols).
void transpose(const float* in, int64_t matrices, int64_t rows, int64_t cols, float* out, Context& context);

}  // namespace fp4sim::gpu
