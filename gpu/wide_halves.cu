// A value of e2m1 times a scale of e4m3 has at most six significant bits and lies between 2^−10 and 2688: a normal fp16
// number, or zero. A NaN scale makes its block NaN.
#include "gpu/wide_operand.h"

#include "gpu/widening.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kResident = 4;  // blocks of a multiprocessor, for which the registers must do

/// The fp16 numbers of the eight magnitudes of a code, low and high bytes apart, and the signs of negative scales.
struct Halves {
  uint32_t low[2], high[2];
  uint32_t signs;
};

/// The fp16 number that equals a positive normal binary32 number.
__device__ uint32_t f16_of(float v) { return (bits_of(v) >> 13) - (112u << 10); }

__device__ Halves halves_of_scale(uint32_t code) {
  const uint32_t signs = (code & 0x80u) != 0 ? 0x88888888u : 0u, magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return {{0, 0}, {0x7E7E7E7Eu, 0x7E7E7E7Eu}, 0};
  if (magnitude == 0) return {{0, 0}, {0, 0}, 0};
  // The fields of e4m3 lie in binary32 as they are but for the bias, subnormals too.
  const float scale = float_of(magnitude << 20) * 0x1p120f;
  const uint32_t one = f16_of(scale), three_halves = f16_of(1.5f * scale);
  // 0, 0.5, 1, 1.5, 2, 3, 4, 6: 0x0400 is a factor of 2.
  const uint32_t l1 = one & 0xFFu, l3 = three_halves & 0xFFu, h1 = one >> 8, h3 = three_halves >> 8;
  return {{l1 * 0x00010100u + (l3 << 24), l1 * 0x00010001u + l3 * 0x01000100u},
          {h1 * 0x00010100u + (h3 << 24) - 0x00000400u, h1 * 0x00010001u + h3 * 0x01000100u + 0x08080404u},
          signs};
}

/// Numbers of 16 bits.
template <int rows, bool whole>
struct HalfChunks {
  static constexpr int kChunkK = 8, kScaleShift = 4;
  static constexpr bool kScaled = true;

  __device__ void start(const NumberedPiece&) {}
  __device__ uint4 chunk(int, const uint32_t (&codes)[1], uint32_t scale_code) {
    const Halves table = halves_of_scale(scale_code);
    const uint32_t magnitudes = codes[0] & 0x77777777u, signed_codes = codes[0] ^ table.signs, even = signed_codes << 4;
    uint32_t words[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t select = magnitudes >> (16 * half);
      const uint32_t low = permute_bytes(table.low[0], table.low[1], select);
      const uint32_t high = permute_bytes(table.high[0], table.high[1], select) |
                            (permute_bytes(signed_codes, even, kSignBytes[half]) & 0x80808080u);
      words[2 * half] = __byte_perm(low, high, 0x5140);
      words[2 * half + 1] = __byte_perm(low, high, 0x7362);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
  __device__ void finish(const NumberedPiece&) {}
};

__global__ void __launch_bounds__(kWideningThreads, kResident) widen_to_halves(const __grid_constant__ Widenings all) {
  widen_piece<HalfChunks>(own_piece(all));
}

}  // namespace

WidePair widen_halves(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  using Chunks = HalfChunks<kAlongRows, true>;
  const WideningPair pair =
      widening_pair({&a, 1}, {&b, 1}, kChunks * Chunks::kChunkK, Chunks::kScaleShift, kResident, context);
  context.launch(widen_to_halves, grid_of(pair.work), pair.work);
  return pair.wide;
}

}  // namespace fp4sim::gpu
