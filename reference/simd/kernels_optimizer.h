// Kernels of the optimizer and of sums over whole tensors.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

/// The constants of one AdamW step (numerics.md §9), each rounded to binary32 as the formula says.
struct AdamwStep {
  float decay;            // 1 − lr·wd
  float beta1, rest1;     // β1, 1 − β1
  float beta2, rest2;     // β2, 1 − β2
  float rate, root, eps;  // a = lr/(1 − P1), r = sqrt(1 − P2)
};

struct OptimizerKernels {
  void (*adamw)(const AdamwStep& step, const float* g, float* p, float* m, float* v, int64_t n);
  /// sums[c] = rowsum of chunk c (kRowChunk elements, the last may be short) of x.
  void (*chunk_sums)(const float* x, float* sums, int64_t n);
  /// The same for x·x with fma.
  void (*chunk_squares)(const float* x, float* sums, int64_t n);
};

FP4SIM_LEVEL_TABLE(OptimizerKernels, optimizer_kernels)

}  // namespace fp4sim::simd
