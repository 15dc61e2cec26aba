// Kernels of the Hadamard rotation (numerics.md §6) on contiguous blocks and on blocks of rows.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

/// One rotation: y = factor·H·(signs·x), or with `inverse` y = signs·(factor·H·x).
struct HadamardPlan {
  int32_t n;  // 16, 32, 64 or 128
  bool inverse;
  float factor;         // fl(1/sqrt(n))
  uint32_t signs[128];  // the sign bit where the sign is −1, else 0
};

struct HadamardKernels {
  /// `blocks` blocks of n consecutive elements.
  void (*rows)(const HadamardPlan& plan, const float* x, int64_t blocks, float* y);
  /// n rows, `stride` elements apart, over `cols` columns: one block a column.
  void (*columns)(const HadamardPlan& plan, const float* x, int64_t stride, int64_t cols, float* y);
};
FP4SIM_LEVEL_TABLE(HadamardKernels, hadamard_kernels)

}  // namespace fp4sim::simd
