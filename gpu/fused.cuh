// What the fused quantization kernels share: eight neighbours in registers, maxima that keep NaN, and the scale of a
// block as one factor.
#pragma once

#include <cuda_runtime.h>

#include "gpu/packing.cuh"
#include "gpu/scale.cuh"
#include "gpu/short_codec.cuh"
#include "gpu/warp.cuh"

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

/// The largest word of the block's threads, in every thread. `warps`: a word of shared memory for each warp.
template <int kWarps>
__device__ inline uint32_t block_maximum(uint32_t v, uint32_t (&warps)[kWarps]) {
  v = warp_max(v);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = v;
  __syncthreads();
#pragma unroll
  for (const uint32_t w : warps) v = max(v, w);
  return v;
}

/// The scale byte of a block and the factor that gives y. A nonfinite block has factor 0 and its codes are not used; a
/// scale of 0 has factor 0: signed zeros.
struct BlockScale {
  uint8_t code;
  float factor;
};

/// The e4m3 code of a number from 0 on, round to nearest even, saturated.
__device__ inline uint32_t e4m3_code(float v, [[maybe_unused]] const ShortCodec& codec) {
#ifdef __CUDA_ARCH__
  uint16_t code;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(v));
  return code;
#else
  return encode_short_rne(v, codec);
#endif
}

/// Makes the scales of blocks from their amax: e8m0 by every rule but opt, or e4m3 by profile te.
struct ScaleMaker {
  Quantizer q;
  ShortCodec scale_codec;      // e4m3, for te
  ShortDecoder scale_decoder;  // e4m3, for te
  float inverse_max;           // fl(1/emx)
  // e8m0: where emax ≥ 2 the exponent field of amax + round_up, less emax, is the code, which no clamp reaches from
  // above.
  bool quick;
  uint32_t round_up;
  int emax;

  /// e8m0 where it is quick, of a finite block.
  __device__ BlockScale quick_scale(uint32_t amax) const {
    const int above = static_cast<int>((amax + round_up) >> 23) - emax, code = above > 0 ? above : 0;
    return {static_cast<uint8_t>(code), float_of(static_cast<uint32_t>(2 * kE8m0Bias - code) << 23)};
  }

  template <bool two_level>
  __device__ BlockScale make(uint32_t amax, const TensorScales& t) const {
    if (amax >= kF32Inf) return {nonfinite_scale(q), 0.0f};
    if (!two_level) {
      if (quick) return quick_scale(amax);
      const uint8_t code = amax == 0 ? 0 : static_cast<uint8_t>(e8m0_exponent(amax, q.element, q.rule) + kE8m0Bias);
      return {code, pow2_f32(kE8m0Bias - code)};
    }
    const float number = at_most(float_of(amax) * (t.encode * inverse_max), float_max());
    const uint32_t code = e4m3_code(number, scale_codec);
    const float b = decode_short(code, scale_decoder);
    return {static_cast<uint8_t>(code), b == 0 ? 0.0f : at_most(1.0f / (b * t.decode), float_max())};
  }
};

/// What a rule adds to the bits of amax, so that the exponent field is that of the rounded amax. Host only.
inline uint32_t scale_round_up(const Quantizer& q) {
  constexpr uint32_t kFraction = 0x7FFFFF;
  switch (q.rule) {
    case ScaleRule::ceil: return kFraction;
    case ScaleRule::even: return 0x400000u >> q.element.mantissa_bits;
    case ScaleRule::rceil: return kFraction - (bits_of(q.element_max) & kFraction);
    default: return 0;  // floor
  }
}

/// Host only.
inline ScaleMaker scale_maker_of(const Quantizer& q) {
  ScaleMaker maker{q, {}, {}, 1.0f / q.element_max, emax(q.element) >= 2, scale_round_up(q), emax(q.element)};
  if (q.has_tensor_scale) {
    maker.scale_codec = short_codec_of({q.scale_element, Rounding::rne, false});
    maker.scale_decoder = short_decoder_of(q.scale_element);
  }
  return maker;
}

}  // namespace fp4sim::gpu
