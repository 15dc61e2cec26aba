// Encoders of the fused kernels: codes of four or eight neighbours as a bit string, the first in the lowest bits.
// ready() is what a thread encodes with: it has read what lies in memory.
#pragma once

#include <cuda_runtime.h>

#include "gpu/e2m1.cuh"
#include "gpu/packing.cuh"
#include "gpu/philox.cuh"
#include "gpu/short_codec.cuh"

namespace fp4sim::gpu {

/// The string of four e2m1 codes without signs from their words (e2m1.cuh).
__device__ inline uint32_t e2m1_string(const uint32_t (&words)[4]) {
  // What the words hold above their codes overflows out of the lower half.
  return (words[0] + words[1] * 0x10u + words[2] * 0x100u + words[3] * 0x1000u) & 0xFFFFu;
}

/// The signs of four numbers where their e2m1 codes have them.
__device__ inline uint32_t e2m1_signs(const float (&y)[4]) {
  constexpr unsigned kHighBytes = 0x73;  // of two words, to the lower half of a word
  const uint32_t even = __byte_perm(bits_of(y[0]), bits_of(y[2]), kHighBytes);
  const uint32_t odd = __byte_perm(bits_of(y[1]), bits_of(y[3]), kHighBytes);
  return (even >> 4 & 0x0808u) | (odd & 0x8080u);
}

/// e2m1, round to nearest even, saturated. y is no NaN.
struct E2m1Nearest {
  __device__ const E2m1Nearest& ready() const { return *this; }
  __device__ int bits() const { return 4; }

  /// The codes of elements i … i + 3 of the tensor.
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    const uint32_t words[4] = {e2m1_word(y[0]), e2m1_word(y[1]), e2m1_word(y[2]), e2m1_word(y[3])};
    return e2m1_string(words) | e2m1_signs(y);
  }
};

/// Four codes of e4m3 or e5m2, one a byte, by the device's conversion: round to nearest even, saturated; y is no NaN.
template <bool e4m3>
__device__ inline uint32_t fp8_codes(const float (&y)[4], [[maybe_unused]] const ShortCodec& codec) {
#ifdef __CUDA_ARCH__
  uint16_t low, high;
  if constexpr (e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
  }
  return uint32_t{low} | uint32_t{high} << 16;
#else
  uint32_t string = 0;
  for (int k = 0; k < 4; ++k) string |= encode_short_rne(y[k], codec) << (8 * k);
  return string;
#endif
}

/// e4m3 or e5m2, round to nearest even, saturated. y is no NaN.
template <bool e4m3>
struct Fp8Nearest {
  ShortCodec codec;  // of the host's build
  __device__ const Fp8Nearest& ready() const { return *this; }
  __device__ int bits() const { return 8; }
  __device__ uint32_t four(const float (&y)[4], int64_t) const { return fp8_codes<e4m3>(y, codec); }
};

/// e2m3 or e3m2, round to nearest even, saturated: their codes are those of e4m3 or e5m2 for y·2^-6 or y·2^-12. y is no
/// NaN.
template <bool e2m3>
struct Fp6Nearest {
  ShortCodec wide;  // e4m3 or e5m2, of the host's build
  __device__ const Fp6Nearest& ready() const { return *this; }
  __device__ int bits() const { return 6; }
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    constexpr float kFactor = e2m3 ? 0x1p-6f : 0x1p-12f;
    const float z[4] = {y[0] * kFactor, y[1] * kFactor, y[2] * kFactor, y[3] * kFactor};
    const uint32_t bytes = fp8_codes<e2m3>(z, wide), magnitudes = bytes & 0x7F7F7F7Fu;
    const uint32_t beyond = (magnitudes + 0x60606060u) & 0x80808080u;  // marks the bytes above 0x1F
    const uint32_t saturated = (magnitudes | (beyond - (beyond >> 7))) & 0x1F1F1F1Fu;
    const uint32_t codes = saturated | (bytes >> 2 & 0x20202020u);
    const uint32_t pairs = (codes & 0x003F003Fu) | (codes >> 2 & 0x0FC00FC0u);  // 12 bits in each half
    return (pairs & 0xFFFu) | (pairs >> 4 & 0xFFF000u);
  }
};

/// Other formats of at most 8 bits, round to nearest even.
struct ShortNearest {
  ShortCodec codec;
  __device__ const ShortNearest& ready() const { return *this; }
  __device__ int bits() const { return codec.bits; }
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    uint32_t string = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) string |= encode_short_rne(y[k], codec) << (k * codec.bits);
    return string;
  }
};

/// The random words of elements i … i + 3 of a tensor; i and the index of the tensor's element 0 are multiples of 4, so
/// that four neighbours take the four words of one Philox call. Key and step are read once.
class RandomFours {
 public:
  __device__ explicit RandomFours(const RandomSource& source)
      : seed_(source.step->seed), first_(source.first / 4), stream_(source.stream), step_(source.step->step) {}
  __device__ PhiloxWords operator()(int64_t i) const {
    return philox(seed_, first_ + static_cast<uint64_t>(i) / 4, stream_, step_);
  }

 private:
  uint64_t seed_, first_;
  uint32_t stream_, step_;
};

/// Formats of at most 8 bits, sr32.
struct ShortStochastic {
  struct Ready {
    ShortCodec codec;
    RandomFours random;
    __device__ int bits() const { return codec.bits; }
    __device__ uint32_t four(const float (&y)[4], int64_t i) const {
      const PhiloxWords words = random(i);
      uint32_t string = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) string |= encode_short_sr32(y[k], words.w[k], codec) << (k * codec.bits);
      return string;
    }
  };
  ShortCodec codec;
  RandomSource source;
  __device__ Ready ready() const { return {codec, RandomFours(source)}; }
};

/// e2m1, sr32. y is finite.
struct E2m1Stochastic {
  struct Ready {
    RandomFours random;
    __device__ int bits() const { return 4; }
    __device__ uint32_t four(const float (&y)[4], int64_t i) const {
      const PhiloxWords words = random(i);
      uint32_t codes = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) codes |= (e2m1_sr32(y[k], words.w[k]) | (bits_of(y[k]) >> 28 & 8u)) << (4 * k);
      return codes;
    }
  };
  RandomSource source;
  __device__ Ready ready() const { return {RandomFours(source)}; }
};

/// Writes the string of four codes of an even number of bits.
__device__ inline void put_four_codes(uint8_t* to, int bits, uint32_t string) {
  if (bits == 4) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(string);
  } else if (bits == 8) {
    *reinterpret_cast<uint32_t*>(to) = string;
  } else {
    store_group(to, bits / 2, CodeGroup{string});
  }
}

/// The same; `index` of the four among all of the tensor.
__device__ inline void store_four_codes(uint8_t* codes, int64_t index, int bits, uint32_t string) {
  put_four_codes(codes + index * (bits / 2), bits, string);
}

/// Writes the strings of two neighbouring fours: `index` of the eight among all of the tensor.
__device__ inline void store_eight_codes(uint8_t* codes, int64_t index, int bits, uint32_t low, uint32_t high) {
  if (bits == 4) {
    reinterpret_cast<uint32_t*>(codes)[index] = low | high << 16;
  } else if (bits == 8) {
    reinterpret_cast<uint2*>(codes)[index] = make_uint2(low, high);
  } else {
    const uint64_t string = low | uint64_t{high} << (4 * bits);
    uint8_t* to = codes + index * bits;
    if (bits == 6) {
      for (int k = 0; k < 3; ++k) reinterpret_cast<uint16_t*>(to)[k] = static_cast<uint16_t>(string >> (16 * k));
    } else {
      store_group(to, bits, CodeGroup{string});
    }
  }
}

}  // namespace fp4sim::gpu
