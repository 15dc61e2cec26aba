// Kernels of occ_split (numerics.md §6): order statistics of a vector, clamping, and the places that were clamped.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

struct OccKernels {
  /// Integer keys in the order of the values, −0 before +0. Returns whether every value is finite.
  bool (*order_keys)(const float* x, int64_t n, int32_t* keys);
  /// The keys of rank `lower` and `upper` (0-based, ascending) as values; 0 ≤ lower, upper < n. scratch: n keys.
  void (*select_two)(const int32_t* keys, int64_t n, int64_t lower, int64_t upper, int32_t* scratch, float values[2]);
  /// Number of elements below `lower` or above `upper`.
  int64_t (*count_outside)(const float* x, int64_t n, float lower, float upper);
  /// yc = x clamped; outside[0 …] = ascending indices of the clamped elements, their number is returned. With
  /// `step` = 1 every element has bounds of its own (columns), with 0 all have the first ones.
  int64_t (*clamp)(const float* x, int64_t n, const float* lower, const float* upper, int64_t step, float* yc,
                   int32_t* outside);
};
FP4SIM_LEVEL_TABLE(OccKernels, occ_kernels)

}  // namespace fp4sim::simd
