// Encoders of the fused kernels: codes of four or eight neighbours as a bit string, the first in the lowest bits.
#pragma once

#include <cuda_runtime.h>

#include "gpu/e2m1.cuh"
#include "gpu/packing.cuh"
#include "gpu/philox.cuh"
#include "gpu/short_codec.cuh"

namespace fp4sim::gpu {

/// e2m1, round to nearest even, saturated. y is no NaN.
struct E2m1Nearest {
  __device__ int bits() const { return 4; }

  /// The codes of elements i … i + 3 of the tensor.
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    constexpr unsigned kLowBytes = 0x40, kHighBytes = 0x73;  // of two words, to the lower half of a word
    const uint32_t codes = __byte_perm(__byte_perm(e2m1_word(y[0]), e2m1_word(y[1]), kLowBytes),
                                       __byte_perm(e2m1_word(y[2]), e2m1_word(y[3]), kLowBytes), 0x5410);
    const uint32_t signs = __byte_perm(__byte_perm(bits_of(y[0]), bits_of(y[1]), kHighBytes),
                                       __byte_perm(bits_of(y[2]), bits_of(y[3]), kHighBytes), 0x5410);
    const uint32_t bytes = codes | ((signs & 0x80808080u) >> 4);  // one code a byte
    return __byte_perm(bytes | bytes >> 4, 0, 0x4420);
  }
};

/// Formats of at most 8 bits, round to nearest even.
struct ShortNearest {
  ShortCodec codec;
  __device__ int bits() const { return codec.bits; }
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    uint32_t string = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) string |= encode_short_rne(y[k], codec) << (k * codec.bits);
    return string;
  }
};

/// Formats of at most 8 bits, sr32; i and the index of the tensor's element 0 are multiples of 4, so that four
/// neighbours take the four words of one Philox call.
struct ShortStochastic {
  ShortCodec codec;
  RandomSource source;
  __device__ int bits() const { return codec.bits; }
  __device__ uint32_t four(const float (&y)[4], int64_t i) const {
    const PhiloxWords words =
        philox(source.step->seed, (source.first + static_cast<uint64_t>(i)) / 4, source.stream, source.step->step);
    uint32_t string = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) string |= encode_short_sr32(y[k], words.w[k], codec) << (k * codec.bits);
    return string;
  }
};

/// Writes the string of four codes of an even number of bits: `index` of the four among all of the tensor.
__device__ inline void store_four_codes(uint8_t* codes, int64_t index, int bits, uint32_t string) {
  if (bits == 4) {
    reinterpret_cast<uint16_t*>(codes)[index] = static_cast<uint16_t>(string);
  } else if (bits == 8) {
    reinterpret_cast<uint32_t*>(codes)[index] = string;
  } else {
    store_group(codes + index * bits / 2, bits / 2, CodeGroup{string});
  }
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
