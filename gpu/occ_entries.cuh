// Writing one entry of a csr residual.
#pragma once

#include "gpu/csr_view.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

/// Where e4m3 residuals wait for their scale: their binary32 values and the bits of the largest magnitude.
struct WideResiduals {
  float* values;
  uint32_t* amax;
};

/// Writes entry `at`: its position k in the vector, and ΔY as fp32 or bf16; for e4m3 ΔY goes to `wide`.
__device__ inline void store_entry(const CsrView& csr, int64_t at, int32_t k, float residual,
                                   const WideResiduals& wide) {
  csr.col[at] = k;
  if (csr.format == ResidualFormat::bf16) {
    const Codec codec{csr.element, Rounding::rne, true};
    static_cast<uint16_t*>(csr.values)[at] = static_cast<uint16_t>(encode(residual, codec));
  } else if (csr.format == ResidualFormat::fp32) {
    static_cast<float*>(csr.values)[at] = residual;
  } else {
    wide.values[at] = residual;
  }
}

/// A warp raises the largest magnitude to that of its lanes' residuals, where these have a scale. Most warps only look.
__device__ inline void raise_amax(const WideResiduals& wide, uint32_t largest) {
  if (wide.amax == nullptr) return;
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0 && largest > *static_cast<volatile uint32_t*>(wide.amax)) atomicMax(wide.amax, largest);
}

}  // namespace fp4sim::gpu
