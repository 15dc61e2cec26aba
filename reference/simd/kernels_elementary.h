// The elementary functions over arrays: lets tests and measurements reach what the other kernels use inline.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct ElementaryKernels {
  /// y[i] = exp64(x[i]), log64(x[i]); n is a multiple of 8.
  void (*exp64)(const double* x, double* y, int64_t n);
  void (*log64)(const double* x, double* y, int64_t n);
  /// The same of binary32 arguments, rounded once; any n.
  void (*exp_f32)(const float* x, float* y, int64_t n);
  void (*log_f32)(const float* x, float* y, int64_t n);
};

FP4SIM_LEVEL_TABLE(ElementaryKernels, elementary_kernels)

}  // namespace fp4sim::simd
