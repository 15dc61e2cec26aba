// The residual of OCC as kernels see it (numerics.md §6): entries of a vector are row_ptr[v] … row_ptr[v + 1].
#pragma once

#include "gpu/launch.h"
#include "gpu/scale.cuh"
#include "gpu/vectors.cuh"

namespace fp4sim::gpu {

struct CsrView {
  int64_t* row_ptr;
  int32_t* col;
  void* values;
  uint8_t* scale;  // of e4m3 residuals
  ResidualFormat format;
  ElementFormat element;  // of bf16 and e4m3 residuals
  Vectors vectors;

  /// ΔY of an entry in binary32; a scale of 0xFF gives NaN.
  FP4SIM_HD float residual(int64_t entry) const {
    if (format == ResidualFormat::fp32) return static_cast<const float*>(values)[entry];
    if (format == ResidualFormat::bf16) return decode(static_cast<const uint16_t*>(values)[entry], element);
    const float factor = *scale == kE8m0NaN ? canonical_nan() : pow2_f32(*scale - kE8m0Bias);
    return decode(static_cast<const uint8_t*>(values)[entry], element) * factor;
  }
};

/// The view of a csr tensor. Host only.
inline CsrView csr_view_of(const Tensor& csr) {
  const ResidualFormat format = csr.type.spec.occ.residual;
  const bool e4m3 = format == ResidualFormat::e4m3;
  return {reinterpret_cast<int64_t*>(device_data(csr.parts[0])),
          reinterpret_cast<int32_t*>(device_data(csr.parts[1])),
          device_data(csr.parts[2]),
          e4m3 ? reinterpret_cast<uint8_t*>(device_data(csr.parts[3])) : nullptr,
          format,
          e4m3 ? kE4m3 : kBf16,
          vectors_of(csr.type.shape, csr.type.axis)};
}

}  // namespace fp4sim::gpu
