// Column sums (numerics.md §7): kernels continue the chains in acc[0 … cols) over `rows` rows that lie `stride`
// elements apart; the op layer cuts rows into panels.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct ColumnKernels {
  /// acc = fl(acc + x).
  void (*sum)(float* acc, const float* x, int64_t rows, int64_t stride, int64_t cols);
  /// The same over the rows positions[0 … count).
  void (*gather_sum)(float* acc, const float* x, const int32_t* positions, int64_t count, int64_t stride, int64_t cols);
  /// acc = fma(dy, fl(x·r[row]), acc).
  void (*rms_products)(float* acc, const float* dy, const float* x, const float* r, int64_t rows, int64_t stride,
                       int64_t cols);
  /// acc = fma(dy, fl(fl(x − mean[row])·r[row]), acc).
  void (*layer_products)(float* acc, const float* dy, const float* x, const float* mean, const float* r, int64_t rows,
                         int64_t stride, int64_t cols);
};

FP4SIM_LEVEL_TABLE(ColumnKernels, column_kernels)

}  // namespace fp4sim::simd
