// A value of e2m1 times a scale of e4m3 has at most six significant bits and lies between 2^−10 and 2688: a normal fp16
// number, or zero. A NaN scale makes its block NaN.
#include "gpu/wide_halves.h"

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

/// The scale of a code without sign: the fields of e4m3 lie in binary32 as they are but for the bias, subnormals too.
__device__ float scale_of(uint32_t magnitude) { return float_of(magnitude << 20) * 0x1p120f; }

__device__ Halves halves_of_scale(uint32_t code) {
  const uint32_t signs = (code & 0x80u) != 0 ? 0x88888888u : 0u, magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return {{0, 0}, {0x7E7E7E7Eu, 0x7E7E7E7Eu}, 0};
  if (magnitude == 0) return {{0, 0}, {0, 0}, 0};
  const float scale = scale_of(magnitude);
  const uint32_t one = f16_of(scale), three_halves = f16_of(1.5f * scale);
  // 0, 0.5, 1, 1.5, 2, 3, 4, 6: 0x0400 is a factor of 2.
  const uint32_t l1 = one & 0xFFu, l3 = three_halves & 0xFFu, h1 = one >> 8, h3 = three_halves >> 8;
  return {{l1 * 0x00010100u + (l3 << 24), l1 * 0x00010001u + l3 * 0x01000100u},
          {h1 * 0x00010100u + (h3 << 24) - 0x00000400u, h1 * 0x00010001u + h3 * 0x01000100u + 0x08080404u},
          signs};
}

/// Bounds of a piece's rows: bits of the largest squares of each kNormRows, and of all scale codes without sign the
/// smallest that is not 0, less 1.
struct PieceBounds {
  static constexpr int kGroups = kWideRows / kNormRows;
  uint32_t squares[kGroups], scale;
  float *to_squares, *to_units;  // where they go: known from the start, so that no thread has to remember it
};

/// The power of two of which the numbers are multiples whose scales are `code` or larger: half a step of e4m3.
__device__ float unit_of_scale(uint32_t code) {
  constexpr uint32_t kLargest = 0x7E;
  const uint32_t field = (code < kLargest ? code : kLargest) >> 3;
  return pow2_f32((field == 0 ? 1 : static_cast<int>(field)) - 11);
}

/// The sum of the squares of eight elements, in quarters.
__device__ int squares_of(uint32_t magnitudes) {
  constexpr uint32_t kLow = 0x03020100u, kHigh = 0x0C080604u;  // in halves
  const auto first = static_cast<int>(__byte_perm(kLow, kHigh, magnitudes));
  const auto second = static_cast<int>(__byte_perm(kLow, kHigh, magnitudes >> 16));
  return __dp4a(first, first, __dp4a(second, second, 0));
}

/// Numbers of 16 bits, and the bounds of their values.
template <int rows, bool whole>
struct HalfChunks {
  static constexpr int kChunkK = 8, kScaleShift = 4;
  static constexpr bool kScaled = true;
  static constexpr bool kAlong = rows == kAlongRows;
  static constexpr int kSets = kAlong ? rows : 1;  // of squares: of each row of the thread's, or of all
  // Lanes that hold the four chunks of a part of a row differ in two bits of their numbers.
  static constexpr int kPartLanes = kAlong ? 1 : kGroupRows;
  static_assert(kPieceRows == kNormRows && kPartK == 4 * kChunkK);

  PieceBounds& bounds;
  float squares[kSets] = {};
  uint32_t least = ~0u;  // of the scale codes less 1

  __device__ explicit HalfChunks(PieceBounds& shared) : bounds(shared) {}
  __device__ void start(const NumberedPiece& p) {
    if (threadIdx.x != 0) return;
    bounds = {{}, ~0u, p.squares(), p.w.units + p.row_block()};
  }
  __device__ uint4 chunk(int r, const uint32_t (&codes)[1], uint32_t scale_code) {
    const Halves table = halves_of_scale(scale_code);
    const uint32_t magnitudes = codes[0] & 0x77777777u, signed_codes = codes[0] ^ table.signs, even = signed_codes << 4;
    bound(kAlong ? r : 0, magnitudes, scale_code & 0x7Fu);
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
  __device__ void finish(const NumberedPiece&) {
    __syncthreads();
    const bool first_lane = threadIdx.x % kWarp == 0;
#pragma unroll
    for (int g = 0; g < PieceBounds::kGroups; ++g) {
      const bool own = kAlong || row_in_piece<rows>(0) / kNormRows == g;
      const uint32_t most = warp_max(own ? bits_of(squares[kAlong ? g : 0]) : 0);
      if (first_lane) atomicMax(&bounds.squares[g], most);
    }
    const uint32_t scale = warp_min(least);
    if (first_lane) atomicMin(&bounds.scale, scale);
    __syncthreads();
    if (threadIdx.x >= PieceBounds::kGroups) return;
    bounds.to_squares[threadIdx.x] = float_of(bounds.squares[threadIdx.x]);
    bounds.to_units[threadIdx.x] = unit_of_scale(bounds.scale == ~0u ? bounds.scale : bounds.scale + 1);
  }

 private:
  /// Takes a chunk into the bounds. The whole warp calls.
  __device__ void bound(int set, uint32_t magnitudes, uint32_t scale_code) {
    least = min(least, scale_code - 1);  // 0 has no unit
    const float scale = scale_of(scale_code);
    // Exact, in 19 bits.
    float sum = static_cast<float>(squares_of(magnitudes)) * (0.25f * scale * scale);
    if (scale_code == 0x7F) sum = float_of(kF32Inf);
    sum += __shfl_xor_sync(kAllLanes, sum, kPartLanes);
    sum += __shfl_xor_sync(kAllLanes, sum, 2 * kPartLanes);
    squares[set] = fmaxf(squares[set], sum);
  }
};

__global__ void __launch_bounds__(kWideningThreads, kResident) widen_to_halves(const __grid_constant__ Widenings all) {
  __shared__ PieceBounds bounds;
  widen_piece<HalfChunks>(own_piece(all), bounds);
}

/// Room for the bounds of an operand.
ValueBounds bounds_of(Widening& w, int64_t ranges, Context& context) {
  const int64_t row_blocks = w.padded_rows() / kNormRows, count = w.matrices * ranges * row_blocks;
  w.squares = context.scratch<float>(count);
  w.units = context.scratch<float>(count);
  return {{w.squares, w.matrices, row_blocks, ranges, 1, static_cast<uint32_t>(row_blocks)}, w.units};
}

}  // namespace

HalvesPair widen_halves(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  using Chunks = HalfChunks<kAlongRows, true>;
  auto [work, wide] =
      widening_pair({&a, 1}, {&b, 1}, kChunks * Chunks::kChunkK, Chunks::kScaleShift, kResident, context);
  const HalvesPair pair{wide, bounds_of(work.of[0], work.ranges, context), bounds_of(work.of[1], work.ranges, context)};
  context.launch(widen_to_halves, grid_of(work), work);
  return pair;
}

}  // namespace fp4sim::gpu
