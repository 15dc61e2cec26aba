// The quantiles between which OCC clamps (numerics.md §6).
#pragma once

#include "gpu/launch.h"
#include "gpu/vectors.cuh"

namespace fp4sim::gpu {

/// What a group (a vector or the tensor) is clamped to; not split: it has a NaN or an Inf and stays as it is.
struct Bounds {
  float lower, upper;
  bool split;
};

/// Y clamped to its group's bounds; compares as written in §6, so that −0 and NaN stay.
FP4SIM_HD float clamp_to(float y, const Bounds& b) {
  if (!b.split) return y;
  return y < b.lower ? b.lower : y > b.upper ? b.upper : y;
}

/// Writes the bounds of every vector of y.
void vector_bounds(const float* y, const Vectors& vectors, double alpha, Bounds* bounds, Context& context);

/// Writes the bounds of the whole tensor y of `count` > 0 elements.
void tensor_bounds(const float* y, int64_t count, double alpha, Bounds* bounds, Context& context);

}  // namespace fp4sim::gpu
