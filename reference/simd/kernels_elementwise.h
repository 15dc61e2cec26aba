// Element-wise kernels over contiguous ranges of n elements.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct ElementwiseKernels {
  void (*add)(const float* x, const float* b, float* y, int64_t n);
  void (*mul)(const float* x, const float* b, float* y, int64_t n);
  void (*scale)(const float* x, float factor, float* y, int64_t n);
  /// y = fl(fl(x·first)·second).
  void (*scale_twice)(const float* x, float first, float second, float* y, int64_t n);
  void (*silu)(const float* x, float* y, int64_t n);
  void (*silu_grad)(const float* dy, const float* x, float* dx, int64_t n);
  void (*gelu)(const float* x, float* y, int64_t n);
  void (*gelu_grad)(const float* dy, const float* x, float* dx, int64_t n);
};

FP4SIM_LEVEL_TABLE(ElementwiseKernels, elementwise_kernels)

}  // namespace fp4sim::simd
