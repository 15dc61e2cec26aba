// What the fused kernels of e2m1 share: eight neighbours in registers, and the scale of a block as one factor.
#pragma once

#include <cuda_runtime.h>

#include "gpu/e2m1.cuh"
#include "gpu/packing.cuh"
#include "gpu/scale.cuh"

namespace fp4sim::gpu {

constexpr int kGroup = kGroupCodes;

struct Eight {
  float v[kGroup];
};

__device__ inline Eight load_eight(const float* x) {
  const float4 low = reinterpret_cast<const float4*>(x)[0], high = reinterpret_cast<const float4*>(x)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ inline uint32_t maximum_of(const Eight& e) {
  uint32_t most = 0;
#pragma unroll
  for (const float v : e.v) most = max(most, magnitude_bits(v));
  return most;
}

/// The scale byte of a block and the factor that gives y. A nonfinite block has factor 0 and its codes are not used; a
/// scale of 0 has factor 0: signed zeros.
struct BlockScale {
  uint8_t code;
  float factor;
};

template <bool two_level>
__device__ BlockScale block_scale(uint32_t amax, const Quantizer& q, const TensorScales& t) {
  if (amax >= kF32Inf) return {nonfinite_scale(q), 0.0f};
  const uint8_t code = scale_candidates(amax, t, q).first;
  if (!two_level) return {code, pow2_f32(kE8m0Bias - code)};
  const float b = decode_scale(code, q);
  return {code, b == 0 ? 0.0f : at_most(1.0f / (b * t.decode), float_max())};
}

}  // namespace fp4sim::gpu
