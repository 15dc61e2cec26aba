// Packing of operand tiles (for ISA units); the forms are described in kernels_product.h.
#pragma once

#include <cstdint>

#include "reference/simd/isa.h"

namespace fp4sim::simd::FP4SIM_ISA {

// Units of 4 bytes: binary32 elements.
void pack_columns_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
void pack_transposed_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
template <int64_t kRowStride>
void pack_rows_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to) {
  const float* x = static_cast<const float*>(from);
  float* y = static_cast<float*>(to);
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t k = 0; k < depth; ++k) y[v * kRowStride + k] = x[v * stride + k];
}

// binary32 in memory, binary64 in the packed form.
void pack_columns_f64(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
void pack_transposed_f64(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
template <int64_t kRowStride>
void pack_rows_f64(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to) {
  const float* x = static_cast<const float*>(from);
  double* y = static_cast<double*>(to);
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t k = 0; k < depth; ++k) y[v * kRowStride + k] = static_cast<double>(x[v * stride + k]);
}

}  // namespace fp4sim::simd::FP4SIM_ISA
