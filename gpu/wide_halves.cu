// A value of e2m1 times a scale of e4m3 has at most six significant bits and lies between 2^−10 and 2688: a normal fp16
// number, or zero. A NaN scale makes its block NaN. A thread turns 16 codes of a row into 32 bytes, or, where k lies
// across the rows of codes, 8 rows of 8 k.
#include "gpu/wide_operand.h"

#include "gpu/widening.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = kWideningThreads;
constexpr int kHalfBlockShift = 4;  // blocks of 16 k
constexpr int kSliceK = kSliceBytes / 2;

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

/// The numbers of eight codes, two a word.
__device__ void halves_of(uint32_t codes, const Halves& table, uint32_t (&words)[4]) {
  const uint32_t magnitudes = codes & 0x77777777u, signed_codes = codes ^ table.signs, even = signed_codes << 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t select = magnitudes >> (16 * half);
    const uint32_t low = __byte_perm(table.low[0], table.low[1], select);
    const uint32_t high = __byte_perm(table.high[0], table.high[1], select) |
                          (permute_bytes(signed_codes, even, kSignBytes[half]) & 0x80808080u);
    words[2 * half] = __byte_perm(low, high, 0x5140);
    words[2 * half + 1] = __byte_perm(low, high, 0x7362);
  }
}

/// The 16 k of a quarter of every second slice of a row.
__device__ void widen_along(const Widening& w, const Piece& piece) {
  constexpr int kBlock = 1 << kHalfBlockShift, kQuarters = kSliceK / kBlock;
  constexpr int kTogether = kThreads / (kPieceRows * kQuarters);
  const int thread = static_cast<int>(threadIdx.x), quarter = thread % kQuarters;
  const int64_t row = piece.first_row + thread / kQuarters % kPieceRows;
  const bool exists = row < w.from.rows, aligned = w.from.k % 16 == 0;
  const uint8_t* from = w.from.view.row(piece.matrix * w.from.rows + row);
  const uint8_t* scales = exists ? scale_codes(w, piece.matrix, row) : nullptr;
#pragma unroll 4
  for (int64_t slice = piece.first_slice + thread / (kPieceRows * kQuarters); slice < piece.last_slice;
       slice += kTogether) {
    const int64_t k = slice * kSliceK + quarter * kBlock;
    uint32_t codes[2] = {0, 0}, scale = 0;
    if (exists && k < w.from.k) {
      scale = __ldg(scales + (k >> kHalfBlockShift) * w.places.block_step);
      if (aligned) {
        const uint2 all = __ldg(reinterpret_cast<const uint2*>(from + k / 2));
        codes[0] = all.x, codes[1] = all.y;
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) codes[i] = load_codes(from + k / 2 + 4 * i, w.from.k - k - 8 * i, false);
      }
    }
    const Halves table = halves_of_scale(scale);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t words[4];
      halves_of(codes[half], table, words);
      *reinterpret_cast<uint4*>(place_of_chunk(w, piece.matrix, slice, row, 2 * quarter + half)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

/// Eight rows, one chunk of every eighth slice.
__device__ void widen_across(const Widening& w, const Piece& piece) {
  constexpr int kChunkK = kChunk / 2;
  const int lane = static_cast<int>(threadIdx.x % kWarp), chunk = lane % kChunks, first = lane / kChunks * kGroupRows;
  const int64_t row = piece.first_row + first;
  const bool aligned = w.from.view.layout.row_bytes % 4 == 0;
#pragma unroll 2
  for (int64_t slice = piece.first_slice + threadIdx.x / kWarp; slice < piece.last_slice; slice += kThreads / kWarp) {
    const int64_t k = slice * kSliceK + chunk * kChunkK;
    uint32_t codes[kChunkK], turned[kGroupRows][kChunkK / 4], scales[kGroupRows];
    load_across(w, piece.matrix, row, k, aligned, codes);
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
      scales[r] = 0;
      if (row + r < w.from.rows && k < w.from.k)
        scales[r] = __ldg(scale_codes(w, piece.matrix, row + r) + (k >> kHalfBlockShift) * w.places.block_step);
    }
    turn_codes(codes, turned);
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
      uint32_t words[4];  // both words joined have eight nibbles in the order 0 4 1 5 2 6 3 7
      halves_of(turned[r][0] | turned[r][1] << 4, halves_of_scale(scales[r]), words);
      *reinterpret_cast<uint4*>(place_of_chunk(w, piece.matrix, slice, row + r, chunk)) =
          make_uint4(__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410),
                     __byte_perm(words[0], words[1], 0x7632), __byte_perm(words[2], words[3], 0x7632));
    }
  }
}

__global__ void __launch_bounds__(kThreads, 4) widen_to_halves(const __grid_constant__ Widenings all) {
  const NumberedPiece p = piece_number(all, blockIdx.x);
  const Widening& w = all.of[p.operand];
  const Piece piece = piece_of(w, p.number);
  if (w.from.last) {
    widen_along(w, piece);
  } else {
    widen_across(w, piece);
  }
}

}  // namespace

WidePair widen_halves(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  auto [work, wide] = widening_pair({&a, 1}, {&b, 1}, kSliceK, context);
  for (Widening& w : std::span(work.of, work.count)) w.places = scale_places(w.from, kHalfBlockShift);
  context.launch(widen_to_halves, Context::per_block(work.pieces(), kThreads), work);
  return wide;
}

}  // namespace fp4sim::gpu
