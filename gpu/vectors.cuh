// The vectors of a tensor along its contraction axis, and how a block of threads walks one.
#pragma once

#include "gpu/bits.cuh"
#include "reference/contract/value_type.h"

namespace fp4sim::gpu {

/// `count` vectors of `length` elements, neighbours `stride` apart.
struct Vectors {
  int64_t count, length, stride;

  /// Index of element k of vector v.
  FP4SIM_HD int64_t at(int64_t v, int64_t k) const {
    const int64_t outer = quotient(v, stride);
    return outer * stride * length + (v - outer * stride) + k * stride;
  }
};

/// The vectors of a shape along an axis. Host only.
inline Vectors vectors_of(const Shape& shape, Axis axis) {
  const VectorView v = vector_view(shape, axis);
  return {v.vectors, v.length, v.stride > 0 ? v.stride : 1};
}

}  // namespace fp4sim::gpu
