// What the fused quantization kernels share: eight neighbours in registers, maxima that keep NaN, and the scale of a
// block as one factor.
#pragma once

#include <cuda_runtime.h>

#include "gpu/packing.cuh"
#include "gpu/scale.cuh"
#include "gpu/short_codec.cuh"

namespace fp4sim::gpu {

constexpr int kGroup = kGroupCodes;

struct Eight {
  float v[kGroup];
};

__device__ inline Eight load_eight(const float* x) {
  const float4 low = reinterpret_cast<const float4*>(x)[0], high = reinterpret_cast<const float4*>(x)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

/// max(most, |v|), NaN if one of them is NaN: nonnegative numbers, so that the bits order like the magnitudes.
__device__ inline float larger_magnitude(float most, float v) {
#ifdef __CUDA_ARCH__
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(most), "f"(fabsf(v)));
  return result;
#else
  return float_of(max(magnitude_bits(most), magnitude_bits(v)));
#endif
}

/// The largest magnitude_bits of eight, from kF32Inf on if one is NaN or Inf.
__device__ inline uint32_t maximum_of(const Eight& e) {
  float most = 0;
#pragma unroll
  for (const float v : e.v) most = larger_magnitude(most, v);
  return magnitude_bits(most);
}

/// The scale byte of a block and the factor that gives y. A nonfinite block has factor 0 and its codes are not used; a
/// scale of 0 has factor 0: signed zeros.
struct BlockScale {
  uint8_t code;
  float factor;
};

/// Makes the scales of blocks from their amax: e8m0 by every rule but opt, or e4m3 by profile te.
struct ScaleMaker {
  Quantizer q;
  ShortCodec scale_codec;      // e4m3, for te
  ShortDecoder scale_decoder;  // e4m3, for te
  float inverse_max;           // fl(1/emx)

  template <bool two_level>
  __device__ BlockScale make(uint32_t amax, const TensorScales& t) const {
    if (amax >= kF32Inf) return {nonfinite_scale(q), 0.0f};
    if (!two_level) {
      const uint8_t code = amax == 0 ? 0 : static_cast<uint8_t>(e8m0_exponent(amax, q.element, q.rule) + kE8m0Bias);
      return {code, pow2_f32(kE8m0Bias - code)};
    }
    const float number = at_most(float_of(amax) * (t.encode * inverse_max), float_max());
    const uint32_t code = encode_short_rne(number, scale_codec);
    const float b = decode_short(code, scale_decoder);
    return {static_cast<uint8_t>(code), b == 0 ? 0.0f : at_most(1.0f / (b * t.decode), float_max())};
  }
};

/// Host only.
inline ScaleMaker scale_maker_of(const Quantizer& q) {
  ScaleMaker maker{q, {}, {}, 1.0f / q.element_max};
  if (q.has_tensor_scale) {
    maker.scale_codec = short_codec_of({q.scale_element, Rounding::rne, false});
    maker.scale_decoder = short_decoder_of(q.scale_element);
  }
  return maker;
}

}  // namespace fp4sim::gpu
