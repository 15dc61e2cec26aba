// How packed operands of 4-bit codes become the bytes of warpgroup products. A block of threads widens some rows and
// slices of one operand. Where k lies along the rows of codes, a thread makes 16-byte chunks of one row; where it lies
// across them, one chunk of each of 8 rows. What the bytes are is the business of an encoder:
//   kChunkK         codes of a chunk
//   kScaleShift     log2 of the k that share a scale code; kScaled: whether there are any
//   start(piece)    called by the whole block of threads when the first loads are on their way
//   chunk(r, …)     a chunk of row r of the thread's, from its codes and the scale code
//   finish(piece)   called by the whole block of threads
// It is a template of the number of a thread's rows, and of whether rows and chunks are whole: there are eight rows
// where k lies across them, and every chunk has all its codes.
#pragma once

#include <span>

#include "gpu/warp.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

constexpr int kWideningThreads = 256;
constexpr int kWideningWarps = kWideningThreads / kWarp;
constexpr int kChunk = 16;                              // bytes that a thread writes at once
constexpr int kChunks = kSliceBytes / kChunk;           // of a slice
constexpr int kPieceRows = kWideningThreads / kChunks;  // of which a thread has one, or, of a piece, kAlongRows
constexpr int kAlongRows = kWideRows / kPieceRows;      // rows of a thread where k lies along the rows of codes
constexpr int kGroupRows = 8;                           // rows of a thread where k lies across them

/// The row of a piece that is row r of the thread's.
template <int rows>
__device__ inline int row_in_piece(int r) {
  const int thread = static_cast<int>(threadIdx.x);
  return rows == kGroupRows ? thread % kGroupRows * kGroupRows + r : thread / kChunks + r * kPieceRows;
}

/// The part of an operand that a block of threads widens.
struct Piece {
  int64_t matrix, first_row, first_slice, last_slice;
};

/// A piece of one of several operands; `number` counts the pieces of all.
struct NumberedPiece : Piece {
  const Widenings& all;
  const Widening& w;
  uint32_t number, range;

  /// The number of the piece's first kNormRows rows among those of all matrices and ranges: its place in RowNorms.
  __device__ int64_t row_block() const {
    return ((matrix * all.ranges + range) * w.padded_rows() + first_row) / kNormRows;
  }
  __device__ float* squares() const { return w.squares + row_block(); }
};

/// The piece of range `range` that is piece `column` of all operands' rows.
__device__ inline NumberedPiece piece_at(const Widenings& all, uint32_t column, uint32_t range) {
  int operand = 0;
  while (operand + 1 < all.count && column >= all.of[operand + 1].first_column) ++operand;
  const Widening& w = all.of[operand];
  const uint32_t inside = column - w.first_column, matrix = w.matrices == 1 ? 0 : inside / w.row_pieces;
  const int64_t first = range * all.range, first_row = (inside - matrix * w.row_pieces) * kWideRows;
  return {
      {matrix, first_row, first, least(first + all.range, all.slices)}, all, w, range * all.columns + column, range};
}
/// The piece of this block of threads in a grid of all (columns, ranges).
__device__ inline NumberedPiece own_piece(const Widenings& all) { return piece_at(all, blockIdx.x, blockIdx.y); }

/// Where row `row` of the first slice of a piece lies.
__device__ inline uint8_t* place_of_row(const NumberedPiece& p, int64_t row) {
  return p.w.to + ((p.matrix * p.all.slices + p.first_slice) * p.w.padded_rows() + row) * kSliceBytes;
}

/// The scale codes of a row; those of its blocks lie places.block_step apart.
__device__ inline const uint8_t* scale_codes(const NumberedPiece& p, int64_t row) {
  return p.w.scales + p.w.places.of_row(p.matrix, row);
}

/// Byte i of the four words becomes word i.
__device__ inline void turn(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const uint32_t ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
  const uint32_t cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
  a = __byte_perm(ab_low, cd_low, 0x5410), b = __byte_perm(ab_low, cd_low, 0x7632);
  c = __byte_perm(ab_high, cd_high, 0x5410), d = __byte_perm(ab_high, cd_high, 0x7632);
}

/// Nibble i of the eight words from codes[first] on becomes word first + i.
template <int count>
__device__ inline void turn_nibbles(uint32_t (&codes)[count], int first) {
  uint32_t even[4], odd[4];  // rows 0 2 4 6 and 1 3 5 7, one a byte: two k
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = codes[first + 2 * i], high = codes[first + 2 * i + 1];
    even[i] = (low & 0x0F0F0F0Fu) | (high << 4 & 0xF0F0F0F0u);
    odd[i] = (low >> 4 & 0x0F0F0F0Fu) | (high & 0xF0F0F0F0u);
  }
  turn(even[0], even[1], even[2], even[3]);
  turn(odd[0], odd[1], odd[2], odd[3]);
#pragma unroll
  for (int i = 0; i < 4; ++i) codes[first + 2 * i] = even[i], codes[first + 2 * i + 1] = odd[i];
}

/// The row of the matrix that row r of the thread's is made of: rows that only pad the operand repeat the last ones.
template <int rows>
__device__ inline int64_t source_row(const NumberedPiece& p, int r) {
  constexpr int kStep = rows == kGroupRows ? kGroupRows : 1;
  return least(p.first_row + row_in_piece<rows>(r), (p.w.rows - 1) / kStep * kStep);
}

/// Words of codes of one chunk.
template <class Encoder>
constexpr int kChunkWords = Encoder::kChunkK / 8;

/// Loads a chunk of a row of codes, of which `count` exist. `whole`: all of them, at an aligned place.
template <bool whole, int words>
__device__ inline void load_chunk(const uint8_t* from, int count, uint32_t (&codes)[words]) {
  if constexpr (!whole) {
#pragma unroll
    for (int i = 0; i < words; ++i) codes[i] = load_codes(from + 4 * i, count - 8 * i, false);
  } else if constexpr (words == 2) {
    const uint2 both = __ldg(reinterpret_cast<const uint2*>(from));
    codes[0] = both.x, codes[1] = both.y;
  } else {
    codes[0] = __ldg(reinterpret_cast<const uint32_t*>(from));
  }
}

/// A chunk of each of two rows in every slice of a piece, the eight chunks of a row in neighbouring lanes. Loads of
/// several slices are on their way together.
template <bool whole, class Encoder>
__device__ void widen_along(const NumberedPiece& p, Encoder& encoder) {
  constexpr int kK = Encoder::kChunkK, kWords = kChunkWords<Encoder>, kSliceK = kChunks * kK;
  constexpr int kBatch = whole ? 8 / kWords : 1, kBatchK = kBatch * kSliceK;
  const Widening& w = p.w;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const int64_t first_k = p.first_slice * kSliceK + chunk * kK, slice_bytes = w.padded_rows() * kSliceBytes;
  const uint8_t *from[kAlongRows], *scales[kAlongRows];
#pragma unroll
  for (int r = 0; r < kAlongRows; ++r) {
    const int64_t row = source_row<kAlongRows>(p, r);
    from[r] = w.codes + (p.matrix * w.rows + row) * w.row_bytes + first_k / 2;
    if constexpr (Encoder::kScaled) scales[r] = scale_codes(p, row) + (first_k >> Encoder::kScaleShift);
  }
  const int in_piece = row_in_piece<kAlongRows>(0);
  uint8_t* to = place_of_row(p, p.first_row + in_piece) + (chunk ^ in_piece % kGroupRows) * kChunk;
  int64_t left = least(w.k, p.last_slice * kSliceK) - first_k;  // codes of a row from the next chunk on
#pragma unroll 1
  for (int64_t slices = p.last_slice - p.first_slice; slices > 0; slices -= kBatch, left -= kBatchK) {
    uint32_t codes[kAlongRows][kBatch][kWords], scale[kAlongRows][kBatch];
    const int here = static_cast<int>(least(left, kBatchK)), stores = static_cast<int>(least(slices, kBatch));
#pragma unroll
    for (int r = 0; r < kAlongRows; ++r) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        scale[r][i] = 0;
#pragma unroll
        for (uint32_t& c : codes[r][i]) c = 0;
        if (here <= i * kSliceK) continue;
        if constexpr (Encoder::kScaled) scale[r][i] = __ldg(scales[r] + (i * kSliceK >> Encoder::kScaleShift));
        load_chunk<whole>(from[r] + i * kSliceK / 2, here - i * kSliceK, codes[r][i]);
      }
      from[r] += kBatchK / 2;
      if constexpr (Encoder::kScaled) scales[r] += kBatchK >> Encoder::kScaleShift;
    }
    if (slices == p.last_slice - p.first_slice) encoder.start(p);
#pragma unroll
    for (int i = 0; i < kBatch; ++i, to += slice_bytes) {
      if (i >= stores) continue;
#pragma unroll
      for (int r = 0; r < kAlongRows; ++r)
        *reinterpret_cast<uint4*>(to + r * kPieceRows * kSliceBytes) = encoder.chunk(r, codes[r][i], scale[r][i]);
    }
  }
  encoder.finish(p);
}

/// The scale codes of eight rows of a block of k, one a byte, of which `count` exist. `whole`: all, at aligned places.
template <bool whole>
__device__ inline uint2 eight_scales(const uint8_t* from, bool one, int count) {
  if (one) {
    const uint32_t all = __ldg(from) * 0x01010101u;
    const uint64_t kept = whole || count == kGroupRows ? ~uint64_t{0} : (uint64_t{1} << (8 * count)) - 1;
    return make_uint2(all & static_cast<uint32_t>(kept), all & static_cast<uint32_t>(kept >> 32));
  }
  if constexpr (whole) return __ldg(reinterpret_cast<const uint2*>(from));
  uint64_t scales = 0;
#pragma unroll 1
  for (int r = 0; r < count; ++r) scales |= uint64_t{from[r]} << (8 * r);
  return make_uint2(static_cast<uint32_t>(scales), static_cast<uint32_t>(scales >> 32));
}

/// Eight rows, one chunk of every fourth slice; four neighbouring chunks of 64 rows are a warp's.
template <bool whole, class Encoder>
__device__ void widen_across(const NumberedPiece& p, Encoder& encoder) {
  constexpr int kK = Encoder::kChunkK, kWords = kChunkWords<Encoder>, kSliceK = kChunks * kK;
  constexpr int kHalves = 2, kTogether = kWideningWarps / kHalves;  // of a slice; slices of the block of threads
  const Widening& w = p.w;
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int chunk = warp % kHalves * (kChunks / kHalves) + lane / kGroupRows;
  const int64_t row = source_row<kGroupRows>(p, 0), slice = p.first_slice + warp / kHalves;
  const int64_t k = slice * kSliceK + chunk * kK, slice_bytes = w.padded_rows() * kSliceBytes;
  const int rows = static_cast<int>(least(w.rows - row, kGroupRows));
  const uint8_t* from = w.codes + (p.matrix * w.k + k) * w.row_bytes + row / 2;
  const uint8_t* scales = nullptr;
  if constexpr (Encoder::kScaled) scales = scale_codes(p, row) + (k >> Encoder::kScaleShift) * w.places.block_step;
  uint8_t* to = place_of_row(p, p.first_row + row_in_piece<kGroupRows>(0)) + warp / kHalves * slice_bytes;
  int64_t left = least(w.k, p.last_slice * kSliceK) - k;  // codes of a row from here on
  int64_t slices = p.last_slice - slice;
#pragma unroll 1
  for (bool first = true; first || slices > 0; slices -= kTogether, left -= kTogether * kSliceK, first = false) {
    uint32_t codes[kK];
    const int count = static_cast<int>(least(left, kK));
    uint2 scale = make_uint2(0, 0);
    if (Encoder::kScaled && count > 0) scale = eight_scales<whole>(scales, w.places.row_shift != 0, rows);
    if constexpr (whole) {
#pragma unroll
      for (int i = 0; i < kK; ++i)
        codes[i] = count > 0 ? __ldg(reinterpret_cast<const uint32_t*>(from + i * w.row_bytes)) : 0;
    } else {
#pragma unroll 1  // rare, so rather short than fast
      for (int i = 0; i < kK; ++i) codes[i] = i < count ? load_codes(from + i * w.row_bytes, rows, false) : 0;
    }
    from += kTogether * kSliceK * w.row_bytes;
    if constexpr (Encoder::kScaled) scales += (kTogether * kSliceK >> Encoder::kScaleShift) * w.places.block_step;
    if (first) encoder.start(p);
    if (slices <= 0) break;
#pragma unroll
    for (int i = 0; i < kWords; ++i) turn_nibbles(codes, 8 * i);
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
      uint32_t words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = codes[8 * i + r];
      const uint32_t scale_code = __byte_perm(scale.x, scale.y, 0x4440 + r) & 0xFFu;
      *reinterpret_cast<uint4*>(to + r * kSliceBytes + (chunk ^ r) * kChunk) = encoder.chunk(r, words, scale_code);
    }
    to += kTogether * slice_bytes;
  }
  encoder.finish(p);
}

/// Widens a piece with an encoder that is made of `args`.
template <template <int, bool> class Encoder, class... Args>
__device__ inline void widen_piece(const NumberedPiece& p, Args&... args) {
  const bool whole = p.w.k % Encoder<kAlongRows, true>::kChunkK == 0;
  if (p.w.last && whole) {
    Encoder<kAlongRows, true> encoder{args...};
    widen_along<true>(p, encoder);
  } else if (p.w.last) {
    Encoder<kAlongRows, false> encoder{args...};
    widen_along<false>(p, encoder);
  } else if (whole && p.w.rows % kGroupRows == 0) {
    Encoder<kGroupRows, true> encoder{args...};
    widen_across<true>(p, encoder);
  } else {
    Encoder<kGroupRows, false> encoder{args...};
    widen_across<false>(p, encoder);
  }
}

/// One block of threads for each piece. Host only.
inline Grid grid_of(const Widenings& all) {
  Grid grid = Context::per_block(all.columns, kWideningThreads);
  grid.blocks.y = all.ranges;
  return grid;
}

/// The widening of two sides, and where the sides lie.
struct WideningPair {
  Widenings work;
  WidePair wide;
};

/// Pieces and room for the operands of both sides, slice_k k a slice, scales of blocks of 2^scale_shift k, for a
/// kernel of which so many blocks of threads are resident in a multiprocessor; factors, squares and flags are left to
/// the caller. Host only.
WideningPair widening_pair(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, int64_t slice_k,
                           int scale_shift, int64_t resident, Context& context);

}  // namespace fp4sim::gpu
