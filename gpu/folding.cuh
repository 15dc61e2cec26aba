// E5M2 numbers with the scales inside. A row has an origin, the scale exponent whose factor in the bytes is 1. A value
// of e2m1 times 2^f is a normal E5M2 number for −13 ≤ f ≤ 13, so the origin is the row's largest exponent less 13, and
// blocks down to 2^26 below that fit; a NaN scale makes its block NaN. Blocks of scale code 0 must hold zeros only.
//
// Rows of a with a wider span keep their scales for later (LateRows). That rounds nothing that is not rounded by the
// rule as long as all sums are multiples of 2^−149: a product of scales is at least 2^−147, for a dot is a multiple of
// ¼. What fits in none of these ways makes the product unfit.
#pragma once

#include "gpu/scale_span.cuh"

namespace fp4sim::gpu {

constexpr int kLargestFold = 13;
constexpr int kLeastExponent = -60,
              kMostExponent = 50;  // of scales: all sums are then normal numbers, and exact powers
// Exponents of scales below which the other operand's may not be small (−60 − 85 − 2 = −147), and what is small: beside
// others every scale may wait, for −20 − 126 − 2 = −148; −127, the code 0, has only zeros.
constexpr int kTinyExponent = -85, kSmallExponent = -20;

/// True in those threads that write what the whole row has in common.
template <int rows>
__device__ bool writes_rows() {
  return rows == kGroupRows ? threadIdx.x < kWideRows / kGroupRows : threadIdx.x % kChunks == 0;
}

/// The origin of a row whose numbers are E5M2: scales from its largest down to 2^26 below, or the least, are numbers.
__device__ inline int e5m2_origin(const RowSpan& span) {
  return max(span.top == 0 ? kE8m0Bias : span.top - kLargestFold, kE8m0Bias + kLeastExponent + kLargestFold);
}

/// The power of two of an origin, a normal number; anything above the range, where the product is unfit.
__device__ inline float factor_of(int origin) {
  return __uint_as_float(static_cast<uint32_t>(origin - kE8m0Bias + 127) << 23);
}
/// The least scale code whose factor in units of an origin is a normal number of binary32. Sums in these units are then
/// multiples of 2^(−126 − 13 − 2): they are exact where those in real units are.
__device__ inline int least_late(int origin) { return origin - 126; }

/// Writes the factors of the piece's late rows, whose origins are those of `origins` that are not 0: exponent fields of
/// binary32, 1 for zeros and NaN. The whole block of threads calls.
__device__ inline void store_late_factors(const NumberedPiece& p, const uint8_t (&origins)[kWideRows]) {
  constexpr int kBlocks = kSliceBytes >> kBlockShift, kOne = 127;  // blocks of a slice
  const int in_piece = static_cast<int>(threadIdx.x % kWideRows), origin = origins[in_piece];
  if (origin == 0) return;
  const int64_t row = p.first_row + in_piece, blocks = scale_blocks(p.w.k);
  const uint8_t* codes = scale_codes(p, least(row, p.w.rows - 1));  // padding may get anything
#pragma unroll 1
  for (int64_t slice = p.first_slice + threadIdx.x / kWideRows; slice < p.last_slice;
       slice += kWideningThreads / kWideRows) {
    uint32_t fields = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int64_t block = slice * kBlocks + i;
      const int code = block < blocks ? codes[block * p.w.places.block_step] : kE8m0NaN;
      const bool normal = code != 0 && code != kE8m0NaN;
      fields |= static_cast<uint32_t>(normal ? code - origin + kOne : kOne) << (8 * i);
    }
    p.w.late_factors[(p.matrix * p.all.slices + slice) * p.w.padded_rows() + row] = fields;
  }
}

/// The magnitudes of 16 codes, not zero if one of them is not.
__device__ inline uint32_t magnitudes(const uint32_t (&codes)[2]) { return (codes[0] | codes[1]) & 0x77777777u; }

/// The E5M2 numbers of a row's codes times 2^(step − 13); zeros stay zeros whatever the step.
__device__ inline uint4 e5m2_chunk(const uint32_t (&codes)[2], int step, bool nan) {
  // E5M2 of 0, 0.5, 1, 1.5, 2, 3, 4, 6 times 2^−13; the exponent field begins at bit 2.
  const auto steps = static_cast<uint32_t>(step);
  uint32_t low = 0x0A080400u + steps * 0x04040400u, high = 0x12100E0Cu + steps * 0x04040404u;
  if (nan) low = high = 0x7F7F7F7Fu;
  uint32_t bytes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t select = (codes[i / 2] & 0x77777777u) >> (16 * (i % 2));
    const uint32_t signs = permute_bytes(codes[i / 2], codes[i / 2] << 4, kSignBytes[i % 2]);
    bytes[i] = permute_bytes(low, high, select) | (signs & 0x80808080u);
  }
  return make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

/// What all encoders of bytes with scales inside share.
struct FoldedChunks {
  static constexpr int kChunkK = 16, kScaleShift = kBlockShift;
  static constexpr bool kScaled = true;
};

/// The numbers of a row whose smallest scale that has any is `least`, a factor of 2^−13. `misfits` gets bits where a
/// number has none.
__device__ inline uint4 folded_chunk(const uint32_t (&codes)[2], int code, int least, uint32_t& misfits) {
  const int step = code - least;
  misfits |= code == 0 ? magnitudes(codes) : static_cast<uint32_t>(step) & 0x80000000u;
  return e5m2_chunk(codes, step, code == kE8m0NaN);
}

struct FoldingTable {
  SpanTable spans;
  RowSpan rows[kWideRows];
  int least[kWideRows];        // the smallest scale code that has numbers, or kAnyScale
  uint8_t origins[kWideRows];  // of late rows; 0 of others
};

/// E5M2 numbers with the scales inside, or, in late rows, without.
template <int rows, bool whole>
struct Folding : FoldedChunks {
  static constexpr int kAnyScale = -1;  // of late rows

  FoldingTable& table;
  int least[rows] = {};
  uint32_t misfits = 0;
  int flags = 0;  // of UnfitFlags
  bool late = false;

  __device__ explicit Folding(FoldingTable& shared) : table(shared) {}
  __device__ void start(const NumberedPiece& p) {
    {
      RowSpan spans[rows];
      find_spans<whole>(p, table.spans, spans);
      if (writes_rows<rows>()) {
#pragma unroll
        for (int r = 0; r < rows; ++r) table.rows[row_in_piece<rows>(r)] = spans[r];
      }
    }
    __syncthreads();
    // A thread for each row: the codes on their way leave few registers.
    if (threadIdx.x < kWideRows) judge(p, static_cast<int>(threadIdx.x));
    __syncthreads();
#pragma unroll
    for (int r = 0; r < rows; ++r) least[r] = table.least[row_in_piece<rows>(r)];
  }
  __device__ uint4 chunk(int r, const uint32_t (&codes)[2], uint32_t scale) {
    const int code = static_cast<int>(scale);
    return folded_chunk(codes, code, least[r] == kAnyScale ? code - kLargestFold : least[r], misfits);
  }
  __device__ void finish(const NumberedPiece& p) {
    if (misfits != 0) flags |= UnfitFlags::kUnfit;
    int all = 0;
    for (const int flag : {UnfitFlags::kUnfit, UnfitFlags::kTiny, UnfitFlags::kSmall})
      all |= __syncthreads_or(flags & flag) != 0 ? flag : 0;
    if (threadIdx.x == 0) p.all.unfit[p.number] = static_cast<uint8_t>(all);
    if (__syncthreads_or(late ? 1 : 0) != 0) store_late_factors(p, table.origins);
  }

 private:
  /// Decides how a row of the piece is written.
  __device__ void judge(const NumberedPiece& p, int row) {
    const RowSpan s = table.rows[row];
    const int origin = e5m2_origin(s), smallest = origin - kLargestFold;
    const int64_t place = p.matrix * p.w.padded_rows() + p.first_row + row;
    const bool some = s.top != 0, may_wait = p.w.late_rows != nullptr;
    late = may_wait && some && s.low < smallest && s.low >= least_late(origin);
    if (s.top > kE8m0Bias + kMostExponent) flags |= UnfitFlags::kUnfit;
    if (late && s.low < kE8m0Bias + kTinyExponent) flags |= UnfitFlags::kTiny;
    if (!may_wait && some && s.low < kE8m0Bias + kSmallExponent) flags |= UnfitFlags::kSmall;
    table.least[row] = late ? kAnyScale : smallest;
    table.origins[row] = static_cast<uint8_t>(late ? origin : 0);
    if (p.range != 0) return;
    p.w.factors[place] = factor_of(origin);
    if (may_wait) p.w.late_rows[place] = late ? 1 : 0;
  }
};

/// The same for rows that were written as units: those know their factors.
template <int rows, bool whole>
struct Refolding : FoldedChunks {
  int least[rows] = {};

  __device__ void start(const NumberedPiece& p) {
    const float* factors = p.w.factors + p.matrix * p.w.padded_rows() + p.first_row;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const uint32_t exponent = __float_as_uint(factors[row_in_piece<rows>(r)]) >> 23;  // of bias 127, as scale codes
      least[r] = static_cast<int>(exponent) - kLargestFold;
    }
  }
  __device__ uint4 chunk(int r, const uint32_t (&codes)[2], uint32_t code) {
    uint32_t misfits = 0;
    return folded_chunk(codes, static_cast<int>(code), least[r], misfits);
  }
  __device__ void finish(const NumberedPiece&) {}
};

}  // namespace fp4sim::gpu
