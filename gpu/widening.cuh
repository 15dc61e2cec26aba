// What the kernels that widen packed operands of 4-bit codes share: the pieces of an operand that blocks of threads
// take, and the places of the bytes.
#pragma once

#include "gpu/warp.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

constexpr int kWideningThreads = 256;
constexpr int kPieceRows = 32;                 // of a block of threads
constexpr int kChunk = 16;                     // bytes that a thread writes at once
constexpr int kChunks = kSliceBytes / kChunk;  // of a slice
constexpr int kGroupRows = 8;                  // rows of a thread where k lies across the rows of codes
static_assert(kPieceRows * kChunks == kWideningThreads);

/// The part of an operand that a block of threads widens.
struct Piece {
  int64_t matrix, first_row, first_slice, last_slice;
};

__device__ inline Piece piece_of(const Widening& w, int64_t number) {
  const int64_t outer = quotient(number, w.row_blocks()), matrix = quotient(outer, w.ranges);
  const int64_t first_slice = (outer - matrix * w.ranges) * w.range;
  return {matrix, (number - outer * w.row_blocks()) * kPieceRows, first_slice, least(first_slice + w.range, w.slices)};
}

/// Where chunk `chunk` of a row of a slice lies.
__device__ inline uint8_t* place_of_chunk(const Widening& w, int64_t matrix, int64_t slice, int64_t row, int chunk) {
  return w.to + ((matrix * w.slices + slice) * w.padded_rows + row) * kSliceBytes +
         (chunk ^ (static_cast<int>(row) & (kGroupRows - 1))) * kChunk;
}

/// The scale codes of a row; those of its blocks lie places.block_step apart.
__device__ inline const uint8_t* scale_codes(const Widening& w, int64_t matrix, int64_t row) {
  return static_cast<const uint8_t*>(w.from.view.scales) + w.places.of_row(matrix, row);
}

/// Byte i of the four words becomes word i.
__device__ inline void turn(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const uint32_t ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
  const uint32_t cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
  a = __byte_perm(ab_low, cd_low, 0x5410), b = __byte_perm(ab_low, cd_low, 0x7632);
  c = __byte_perm(ab_high, cd_high, 0x5410), d = __byte_perm(ab_high, cd_high, 0x7632);
}

/// The codes of eight rows (first bytes of theirs in codes[k]) of `count` k, a multiple of 4, with k along words:
/// turned[row] has the low nibbles of bytes k, four k a word.
template <int count>
__device__ inline void turn_codes(const uint32_t (&codes)[count], uint32_t (&turned)[kGroupRows][count / 4]) {
#pragma unroll
  for (int quad = 0; quad < count / 4; ++quad) {
    uint32_t even[4], odd[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      even[i] = codes[4 * quad + i] & 0x0F0F0F0Fu;
      odd[i] = codes[4 * quad + i] >> 4 & 0x0F0F0F0Fu;
    }
    turn(even[0], even[1], even[2], even[3]);
    turn(odd[0], odd[1], odd[2], odd[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) turned[2 * i][quad] = even[i], turned[2 * i + 1][quad] = odd[i];
  }
}

/// The codes of `count` k from k on of eight rows, where k lies across the rows of codes: one word for each k.
template <int count>
__device__ inline void load_across(const Widening& w, int64_t matrix, int64_t row, int64_t k, bool aligned,
                                   uint32_t (&codes)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    codes[i] = 0;
    if (k + i < w.from.k && row < w.from.rows)
      codes[i] = load_codes(w.from.view.row(matrix * w.from.k + k + i) + row / 2, w.from.rows - row, aligned);
  }
}

/// The operand and the number of the piece there of piece `item` of all.
struct NumberedPiece {
  int operand;
  int64_t number;
};
__device__ inline NumberedPiece piece_number(const Widenings& all, int64_t item) {
  int operand = 0;
  for (; operand < all.count - 1 && item >= all.of[operand].pieces(); ++operand) item -= all.of[operand].pieces();
  return {operand, item};
}

/// The widening of two sides, and where the sides lie.
struct WideningPair {
  Widenings work;
  WidePair wide;
};

/// Pieces and room for the operands of both sides, slice_k k a slice; scales, factors and flags are left to the caller.
/// Host only.
WideningPair widening_pair(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, int64_t slice_k,
                           Context& context);

}  // namespace fp4sim::gpu
