// Which specs the fused quantization kernels take, with what encoder, and their addresses.
#pragma once

#include "gpu/fused_encoders.cuh"
#include "gpu/quantize_fast.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

/// True for specs whose elements divided by a binary32 scale the kernels of vectors and tensors encode: rne, formats of
/// at most 8 bits with a least step that Divisor allows.
inline bool is_fused_quotient(const QuantSpec& s) {
  return s.scale == ScaleFormat::fp32 && s.rounding == Rounding::rne && !s.sr34 && s.element.bits <= 8 &&
         short_codec_takes({s.element, s.rounding, false}) && min_step_exponent(s.element) >= -16;
}

/// True for blocks of 16 or 32 whose scales ScaleMaker makes and whose elements an encoder of binary32 numbers takes.
inline bool is_fused_block(const QuantSpec& s, uint64_t first_element) {
  if (s.granularity != Granularity::block || (s.block_size != 16 && s.block_size != 32) || s.sr34) return false;
  if (s.element.bits > 8 || s.element.bias_auto || !rounds_subnormals_to_zero(s.element)) return false;
  if (!short_codec_takes({s.element, s.rounding, uses_ieee(s)})) return false;
  if (is_stochastic(s.rounding) && first_element % 4 != 0) return false;
  return s.scale == ScaleFormat::e8m0 ? s.rule != ScaleRule::opt
                                      : s.scale == ScaleFormat::e4m3 && s.rule == ScaleRule::te && !uses_ieee(s);
}

/// Calls launch(encoder) with the encoder of a format that saturates, round to nearest even.
template <class Launch>
void with_nearest_encoder(const ElementFormat& f, const Launch& launch) {
  const auto codec = [](const ElementFormat& format) { return short_codec_of({format, Rounding::rne, false}); };
  if (f == kE2m1) return launch(E2m1Nearest{});
  if (f == kE4m3) return launch(Fp8Nearest<true>{codec(f)});
  if (f == kE5m2) return launch(Fp8Nearest<false>{codec(f)});
  if (f == kE2m3) return launch(Fp6Nearest<true>{codec(kE4m3)});
  if (f == kE3m2) return launch(Fp6Nearest<false>{codec(kE5m2)});
  launch(ShortNearest{codec(f)});
}

/// Calls launch(encoder) with the encoder of a spec that is_fused_block.
template <class Launch>
void with_encoder(const QuantizeCall& call, const Launch& launch) {
  const Quantizer& q = call.q.quantizer;
  if (is_stochastic(q.rounding) && q.element == kE2m1) return launch(E2m1Stochastic{call.source});
  if (is_stochastic(q.rounding)) return launch(ShortStochastic{short_codec_of(q.codec()), call.source});
  if (q.ieee) return launch(ShortNearest{short_codec_of(q.codec())});
  with_nearest_encoder(q.element, launch);
}

/// Where the kernels of specs with a tensor scale find A, and where they put d.
struct TensorPart {
  AmaxParts amax;
  const float* given;
  float* stored;

  /// Puts S and d into two words of shared memory; one warp of a block calls it.
  __device__ void find(const Quantizer& q, float* scales) const {
    uint32_t most = 0;
    for (int i = static_cast<int>(threadIdx.x); i < amax.count; i += kWarp) most = max(most, amax.words[i]);
    const TensorScales t = tensor_scales(given != nullptr ? *given : float_of(warp_max(most)), q);
    if (threadIdx.x != 0) return;
    scales[0] = t.encode;
    scales[1] = t.decode;
    if (blockIdx.x == 0 && stored != nullptr) *stored = t.decode;
  }
};

inline TensorPart tensor_part(const QuantizeCall& call) {
  return {call.tensor_amax, call.given_amax, const_cast<float*>(call.q.tensor_scale)};
}

inline uint8_t* codes_of(const QuantizeCall& call) { return const_cast<uint8_t*>(call.q.codes); }
template <class T>
T* scales_of(const QuantizeCall& call) {
  return static_cast<T*>(const_cast<void*>(call.q.scales));
}

}  // namespace fp4sim::gpu
