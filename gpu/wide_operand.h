// Packed operands of 4-bit codes as the bytes that warpgroup products read: int8 units, E5M2 numbers with the blocks'
// scales inside, or fp16 numbers with them inside (wide_halves.h).
#pragma once

#include <span>

#include "gpu/certificate.cuh"
#include "gpu/launch.h"
#include "gpu/nibbles.cuh"

namespace fp4sim::gpu {

constexpr int kSliceBytes = 128;   // of k in one row
constexpr int64_t kWideRows = 64;  // rows are padded to a multiple of it, with anything

/// [matrix][slice of k][row][128 bytes], 16-byte chunk c of a row at place c ^ row mod 8: any eight rows and more of a
/// slice are one piece of memory, as shared memory holds them.
struct WideOperand {
  const uint8_t* data;
  int64_t rows, slices;  // padded
  int64_t matrix_step;   // bytes; 0: every matrix of the product takes the only one

  FP4SIM_HD const uint8_t* at(int64_t matrix, int64_t slice, int64_t row) const {
    return data + matrix * matrix_step + (slice * rows + row) * kSliceBytes;
  }
};

struct WidePair {
  WideOperand a, b;
};

/// One operand that is widened.
struct Widening {
  const uint8_t* codes;
  const uint8_t* scales;  // where they go into the bytes
  ScalePlaces places;
  int64_t row_bytes;  // of codes
  int64_t matrices, rows, k;
  bool last;  // k lies along the rows of codes
  uint8_t* to;
  float* factors;      // [matrix][padded row]: the value of 1 of the row, where it has one
  float* squares;      // of RowNorms
  float* units;        // of ValueBounds
  uint8_t* late_rows;  // of LateRows; nullptr: this side has none
  uint32_t* late_factors;
  uint32_t row_pieces;    // of a matrix, one below the other
  uint32_t first_column;  // of the grid of pieces

  FP4SIM_HD int64_t padded_rows() const { return row_pieces * kWideRows; }
};

/// The operands that one launch widens, those of side a and then those of side b, piece by piece: kWideRows rows and a
/// range of slices.
struct Widenings {
  Widening of[2 * kMostGrouped];
  int count;
  int64_t slices;            // of every operand
  int64_t range;             // slices of a piece
  uint32_t columns, ranges;  // of pieces: row pieces of all matrices of all operands; ranges
  uint8_t* unfit;            // of each piece

  FP4SIM_HD int64_t pieces() const { return int64_t{columns} * ranges; }
};

/// Rows of operand a whose exponents differ by more than E5M2 holds: their bytes are the elements without scales, and
/// each block's dot is multiplied by its scale, in units of the row's factor, where it is added.
struct LateRows {
  const uint8_t* rows;      // [matrix][row]: 1 where the scales wait; nullptr: nowhere
  const uint32_t* factors;  // [matrix][slice][row] of such rows: exponent fields of binary32 of the slice's four blocks
  int64_t matrix_step, pitch, slices;  // step: 0 where every matrix of the product takes the only one
};

/// On the device: whether some row's exponents do not fit into E5M2, nor wait.
struct UnfitFlags {
  // Bits of a piece: unfit whatever the others are; late rows with scales so tiny that those of b must not be small;
  // such small ones in a piece of b.
  static constexpr int kUnfit = 1, kTiny = 2, kSmall = 4;

  const uint8_t* data;  // one for each piece of the operands; nullptr: all fit
  int64_t count;

  /// True in all threads of the block if the product is unfit; the whole block calls.
  __device__ bool any() const {
    int found = 0;
    if (data != nullptr)
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x) found |= data[i];
    const int unfit = __syncthreads_or(found & kUnfit), tiny = __syncthreads_or(found & kTiny);
    return unfit != 0 || (__syncthreads_or(found & kSmall) != 0 && tiny != 0);
  }
};

/// Both operands as int8 multiples of their formats' smallest steps, in scratch.
WidePair widen_units(const NarrowOperand& a, const NarrowOperand& b, Context& context);

/// The operands of one product, or of up to kMostGrouped products of one shape, of one matrix each, whose matrices
/// follow each other in the result; a side with one operand gives it to all of them. e2m1 with e8m0 scales for 32 k,
/// in scratch, as E5M2 numbers of the row's factor; or, for certificates, rows whose exponents differ by at most 3 as
/// int8 units of half of it, if all of their piece are so.
struct FoldedPair {
  WidePair wide;
  OperandScales factors_a, factors_b;  // powers of two that multiply the finished product
  UnfitFlags unfit;                    // of all products together
  LateRows late;
  Certificates certificates;  // what is left for the caller: the bands, and which tiles
  Widenings work;
};
FoldedPair fold_scales(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, Context& context,
                       bool certifies);

/// Turns all int8 rows into E5M2 of the same factors, unless every tile is certified.
void fold_units(const FoldedPair& pair, const Certificates& certificates, Context& context);

}  // namespace fp4sim::gpu
