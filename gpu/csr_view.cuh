// The residual of OCC as kernels see it (numerics.md §6): entries of a vector are row_ptr[v] … row_ptr[v + 1].
#pragma once

#include "gpu/launch.h"
#include "gpu/scale.cuh"
#include "gpu/vectors.cuh"

namespace fp4sim::gpu {

/// The entries of one vector: first … last − 1.
struct CsrSpan {
  int64_t first, last;
};

/// One entry as it is stored.
struct CsrEntry {
  uint32_t code;  // of fp32 residuals the bits
  int32_t position;
};

struct CsrView {
  int64_t* row_ptr;
  int32_t* col;
  void* values;
  uint8_t* scale;  // of e4m3 residuals
  ResidualFormat format;
  ElementFormat element;  // of bf16 and e4m3 residuals
  Vectors vectors;

  /// The entries of a vector, none beyond the last vector.
  FP4SIM_HD CsrSpan span(int64_t v) const {
    return v < vectors.count ? CsrSpan{row_ptr[v], row_ptr[v + 1]} : CsrSpan{0, 0};
  }
  /// Entry `at`; a zero at position 0 from `last` on.
  FP4SIM_HD CsrEntry entry(int64_t at, int64_t last) const {
    return at < last ? CsrEntry{code(at), col[at]} : CsrEntry{0, 0};
  }
  FP4SIM_HD uint32_t code(int64_t at) const {
    if (format == ResidualFormat::fp32) return static_cast<const uint32_t*>(values)[at];
    if (format == ResidualFormat::bf16) return static_cast<const uint16_t*>(values)[at];
    return static_cast<const uint8_t*>(values)[at];
  }
  /// What e4m3 residuals are multiplied by; NaN for a scale of 0xFF.
  FP4SIM_HD float factor() const {
    if (format != ResidualFormat::e4m3) return 1.0f;
    return *scale == kE8m0NaN ? canonical_nan() : pow2_f32(*scale - kE8m0Bias);
  }
  /// ΔY of a code in binary32.
  FP4SIM_HD float residual_of(uint32_t code, float factor) const {
    if (format == ResidualFormat::fp32) return float_of(code);
    const float value = decode(code, element);
    return format == ResidualFormat::bf16 ? value : value * factor;
  }
  /// ΔY of an entry in binary32.
  FP4SIM_HD float residual(int64_t entry) const { return residual_of(code(entry), factor()); }
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
