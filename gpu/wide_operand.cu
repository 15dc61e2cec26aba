// A block of threads widens 32 rows and some slices of one operand. A thread turns 16 codes of a row into 16 bytes, or,
// where k lies across the rows of codes, 8 rows of 16 k; the eight chunks of a slice go to neighbouring lanes, which
// write whole rows of it.
//
// E5M2 with scales inside: a value of e2m1 times 2^f is a normal E5M2 number for −13 ≤ f ≤ 13. A row's largest scale
// exponent becomes f = 13, so blocks down to 2^26 below it fit. Blocks of scale code 0 must hold zeros only, else the
// product is unfit; a NaN scale makes its block NaN.
#include "gpu/wide_operand.h"

#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 32;                      // of a block of threads
constexpr int kChunk = 16;                     // bytes that a thread writes at once, and their k
constexpr int kChunks = kSliceBytes / kChunk;  // of a slice
constexpr int kGroupRows = 8;                  // rows of a thread where k lies across the rows of codes
constexpr int kLeastSlices = 8;                // of a block of threads, where there are as many
constexpr int kLargestFold = 13, kSpan = 26;   // of the exponents f
constexpr int kLeastExponent = -60,
              kMostExponent = 50;  // of scales: all sums are then normal numbers, and exact powers
static_assert(kRows * kChunks == kThreads);

/// One operand of a launch.
struct Widening {
  NarrowOperand from;
  uint8_t* to;
  int64_t padded_rows, slices;
  int64_t range, ranges;  // slices of a block of threads, and how many such ranges there are
  Bytes16 units;          // of every block, where no scales are folded
  ScalePlaces places;     // where they are folded
  float* factors;         // [matrix][padded row]: 2^(largest scale exponent − 13)

  FP4SIM_HD int64_t row_blocks() const { return padded_rows / kRows; }
  FP4SIM_HD int64_t blocks() const { return from.matrices * row_blocks() * ranges; }
  __device__ uint8_t* place(int64_t matrix, int64_t slice, int64_t row, int chunk) const {
    return to + ((matrix * slices + slice) * padded_rows + row) * kSliceBytes +
           (chunk ^ (static_cast<int>(row) & (kGroupRows - 1))) * kChunk;
  }
  /// The scale codes of a row; those of its blocks lie places.block_step apart.
  __device__ const uint8_t* scale_codes(int64_t matrix, int64_t row) const {
    return static_cast<const uint8_t*>(from.view.scales) + places.of_row(matrix, row);
  }
};

struct WideningPair {
  Widening a, b;
  uint8_t* unfit;  // [block of threads]
};

/// The piece of an operand that a block of threads widens.
struct Piece {
  int64_t matrix, first_row, first_slice, last_slice;
};

__device__ Piece piece_of(const Widening& w, int64_t number) {
  const int64_t outer = quotient(number, w.row_blocks()), matrix = quotient(outer, w.ranges);
  const int64_t first_slice = (outer - matrix * w.ranges) * w.range;
  return {matrix, (number - outer * w.row_blocks()) * kRows, first_slice, least(first_slice + w.range, w.slices)};
}

/// The bytes of a block of scale code `code` in a row of largest code `top`; `fits` becomes false where they do not
/// exist.
__device__ Bytes16 folded_bytes(int code, int top, bool& fits) {
  if (code == kE8m0NaN) return {{0x7F7F7F7Fu, 0x7F7F7F7Fu}, {0x7F7F7F7Fu, 0x7F7F7F7Fu}};
  if (code == 0) return {{0, 0}, {0x80808080u, 0x80808080u}};
  const int exponent = code - kE8m0Bias, fold = code - top + kSpan;  // 0 … 26
  if (fold < 0 || exponent < kLeastExponent || exponent > kMostExponent) fits = false;
  // E5M2 of 0, 0.5, 1, 1.5, 2, 3, 4, 6 times 2^−13; the exponent field begins at bit 2.
  const uint32_t step = static_cast<uint32_t>(fold < 0 ? 0 : fold) << 2;
  const uint32_t low = 0x0A080400u + step * 0x01010100u, high = 0x12100E0Cu + step * 0x01010101u;
  return {{low, high}, {low | 0x80808080u, high | 0x80808080u}};
}

/// True unless a block of scale code 0 has a code that is not zero.
__device__ bool zero_fits(int scale_code, uint32_t codes) { return scale_code != 0 || (codes & 0x77777777u) == 0; }

/// Sets tops[row] to the largest scale code of each row; NaN does not count.
template <bool last>
__device__ void find_tops(const Widening& w, const Piece& piece, int (&tops)[kRows]) {
  constexpr int kParts = kThreads / kRows, kCodes = 4;  // threads of a row, codes of a word
  const int64_t blocks = (w.from.k + (1 << kBlockShift) - 1) >> kBlockShift;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) tops[thread] = 0;
  __syncthreads();
  // Neighbouring threads read neighbouring codes: of the blocks of a row, or of the rows of a block.
  if (w.places.row_shift == 0 && (last ? blocks : w.from.rows) % kCodes == 0) {
    const int row = last ? thread / kParts : thread % kParts * kCodes;
    const int first = last ? thread % kParts * kCodes : thread / kParts;
    uint32_t largest = 0;
    if (piece.first_row + row < w.from.rows) {
      const uint8_t* codes = w.scale_codes(piece.matrix, piece.first_row + row);
#pragma unroll 8
      for (int64_t block = first; block < blocks; block += kParts * kCodes) {
        const uint32_t four = __ldg(reinterpret_cast<const uint32_t*>(codes + block * w.places.block_step));
        largest = __vmaxu4(largest, four & ~__vcmpeq4(four, 0x01010101u * kE8m0NaN));
      }
    }
#pragma unroll
    for (int i = 0; i < kCodes; ++i)
      atomicMax(&tops[last ? row : row + i], static_cast<int>(largest >> (8 * i) & 0xFFu));
  } else {
    const int row = last ? thread / kParts : thread % kRows, first = last ? thread % kParts : thread / kRows;
    int largest = 0;
    if (piece.first_row + row < w.from.rows) {
      const uint8_t* codes = w.scale_codes(piece.matrix, piece.first_row + row);
      for (int64_t block = first; block < blocks; block += kParts) {
        const int code = __ldg(codes + block * w.places.block_step);
        if (code != kE8m0NaN && code > largest) largest = code;
      }
    }
    atomicMax(&tops[row], largest);
  }
  __syncthreads();
}

/// The 32 k of a quarter of every second slice of a row.
template <bool folds>
__device__ bool widen_along(const Widening& w, const Piece& piece, const int (&tops)[kRows]) {
  constexpr int kQuarters = kSliceBytes / (2 * kChunk), kTogether = kThreads / (kRows * kQuarters);
  const int thread = static_cast<int>(threadIdx.x), quarter = thread % kQuarters, in_block = thread / kQuarters % kRows;
  const int64_t row = piece.first_row + in_block;
  const bool exists = row < w.from.rows, aligned = w.from.k % 32 == 0;
  const uint8_t* from = w.from.view.row(piece.matrix * w.from.rows + row);
  const uint8_t* scales = folds && exists ? w.scale_codes(piece.matrix, row) : nullptr;
  const int top = folds ? tops[in_block] : 0;
  bool fits = true;
#pragma unroll 4
  for (int64_t slice = piece.first_slice + thread / (kRows * kQuarters); slice < piece.last_slice; slice += kTogether) {
    const int64_t k = slice * kSliceBytes + quarter * 2 * kChunk;
    uint32_t codes[4] = {0, 0, 0, 0};
    if (exists && k < w.from.k) {
      if (aligned) {
        const uint4 all = __ldg(reinterpret_cast<const uint4*>(from + k / 2));
        codes[0] = all.x, codes[1] = all.y, codes[2] = all.z, codes[3] = all.w;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) codes[i] = load_codes(from + k / 2 + 4 * i, w.from.k - k - 8 * i, false);
      }
    }
    Bytes16 table = w.units;
    if constexpr (folds) {
      const int code = exists && k < w.from.k ? __ldg(scales + (k >> kBlockShift) * w.places.block_step) : 0;
      table = folded_bytes(code, top, fits);
      fits = fits && zero_fits(code, codes[0] | codes[1] | codes[2] | codes[3]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t low[2], high[2];
      bytes_of(codes[2 * half], table, low);
      bytes_of(codes[2 * half + 1], table, high);
      *reinterpret_cast<uint4*>(w.place(piece.matrix, slice, row, 2 * quarter + half)) =
          make_uint4(low[0], low[1], high[0], high[1]);
    }
  }
  return fits;
}

/// Byte i of the four words becomes word i.
__device__ void turn(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const uint32_t ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
  const uint32_t cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
  a = __byte_perm(ab_low, cd_low, 0x5410), b = __byte_perm(ab_low, cd_low, 0x7632);
  c = __byte_perm(ab_high, cd_high, 0x5410), d = __byte_perm(ab_high, cd_high, 0x7632);
}

/// Eight rows, one chunk of every eighth slice.
template <bool folds>
__device__ bool widen_across(const Widening& w, const Piece& piece, const int (&tops)[kRows]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), chunk = lane % kChunks, first = lane / kChunks * kGroupRows;
  const int64_t row = piece.first_row + first;
  const bool aligned = w.from.view.layout.row_bytes % 4 == 0;
  bool fits = true;
  for (int64_t slice = piece.first_slice + threadIdx.x / kWarp; slice < piece.last_slice; slice += kThreads / kWarp) {
    const int64_t k = slice * kSliceBytes + chunk * kChunk;
    uint32_t codes[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      codes[i] = 0;
      if (k + i < w.from.k && row < w.from.rows)
        codes[i] = load_codes(w.from.view.row(piece.matrix * w.from.k + k + i) + row / 2, w.from.rows - row, aligned);
    }
    uint32_t bytes[kGroupRows][kChunk / 4];
    if constexpr (!folds) {
#pragma unroll
      for (int quad = 0; quad < kChunk / 4; ++quad) {
        uint32_t wide[4][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) bytes_of(codes[4 * quad + i], w.units, wide[i]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          turn(wide[0][half], wide[1][half], wide[2][half], wide[3][half]);
#pragma unroll
          for (int i = 0; i < 4; ++i) bytes[4 * half + i][quad] = wide[i][half];
        }
      }
    } else {
      // Each row has a scale of its own: turn the codes, one a byte, and widen row by row.
#pragma unroll
      for (int quad = 0; quad < kChunk / 4; ++quad) {
        uint32_t even[4], odd[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          even[i] = codes[4 * quad + i] & 0x0F0F0F0Fu;
          odd[i] = codes[4 * quad + i] >> 4 & 0x0F0F0F0Fu;
        }
        turn(even[0], even[1], even[2], even[3]);
        turn(odd[0], odd[1], odd[2], odd[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) bytes[2 * i][quad] = even[i], bytes[2 * i + 1][quad] = odd[i];
      }
      int scales[kGroupRows];
#pragma unroll
      for (int r = 0; r < kGroupRows; ++r) {
        const bool exists = row + r < w.from.rows && k < w.from.k;
        scales[r] = exists ? __ldg(w.scale_codes(piece.matrix, row + r) + (k >> kBlockShift) * w.places.block_step) : 0;
      }
#pragma unroll
      for (int r = 0; r < kGroupRows; ++r) {
        const Bytes16 table = folded_bytes(scales[r], tops[first + r], fits);
        // Words 2p and 2p + 1 joined have eight nibbles in the order 0 4 1 5 2 6 3 7.
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const uint32_t joined = bytes[r][2 * pair] | bytes[r][2 * pair + 1] << 4;
          fits = fits && zero_fits(scales[r], joined);
          uint32_t wide[2];
          bytes_of(joined, table, wide);
          bytes[r][2 * pair] = __byte_perm(wide[0], wide[1], 0x6420);
          bytes[r][2 * pair + 1] = __byte_perm(wide[0], wide[1], 0x7531);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r)
      *reinterpret_cast<uint4*>(w.place(piece.matrix, slice, row + r, chunk)) =
          make_uint4(bytes[r][0], bytes[r][1], bytes[r][2], bytes[r][3]);
  }
  return fits;
}

/// Widens what lies alike of a pair: both operands, or one of them.
template <bool folds, bool last>
__global__ void __launch_bounds__(kThreads, 3) widen_codes(const __grid_constant__ WideningPair pair) {
  __shared__ int tops[kRows];
  const int64_t of_a = pair.a.from.last == last ? pair.a.blocks() : 0;
  const bool is_a = blockIdx.x < of_a;
  const Widening& w = is_a ? pair.a : pair.b;
  const int64_t number = is_a ? blockIdx.x : blockIdx.x - of_a;
  const Piece piece = piece_of(w, number);
  if constexpr (folds) {
    find_tops<last>(w, piece, tops);
    if (piece.first_slice == 0 && threadIdx.x < kRows) {
      const int top = tops[threadIdx.x], exponent = top == 0 ? 0 : top - kE8m0Bias;
      // Exponents out of range leave any factor: the product is unfit.
      const int kept = exponent < kLeastExponent ? kLeastExponent : exponent > kMostExponent ? kMostExponent : exponent;
      w.factors[piece.matrix * w.padded_rows + piece.first_row + threadIdx.x] = pow2_f32(kept - kLargestFold);
    }
  }
  bool fits;
  if constexpr (last) {
    fits = widen_along<folds>(w, piece, tops);
  } else {
    fits = widen_across<folds>(w, piece, tops);
  }
  if constexpr (folds) {
    const int unfit = __syncthreads_or(fits ? 0 : 1);
    if (threadIdx.x == 0) pair.unfit[is_a ? number : pair.a.blocks() + number] = unfit != 0 ? 1 : 0;
  }
}

int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

/// Room for the bytes of an operand. A block of threads reads all scales of its rows, so it takes a share of long rows.
Widening widening(const NarrowOperand& o, Context& context) {
  const int64_t rows = round_up(o.rows, kWideRows), slices = ceil_div(o.k, kSliceBytes);
  const int64_t range = std::max<int64_t>(kLeastSlices, round_up(ceil_div(slices, 16), kLeastSlices));
  auto* to = context.scratch<uint8_t>(o.matrices * slices * rows * kSliceBytes);
  return {o, to, rows, slices, range, ceil_div(slices, range), units_of(o.view.quantizer.element), {}, nullptr};
}

template <bool folds, bool last>
void launch_widening(const WideningPair& pair, Context& context) {
  const int64_t blocks =
      (pair.a.from.last == last ? pair.a.blocks() : 0) + (pair.b.from.last == last ? pair.b.blocks() : 0);
  context.launch(widen_codes<folds, last>, Context::per_block(blocks, kThreads), pair);
}
template <bool folds>
void launch_widening(const WideningPair& pair, Context& context) {
  launch_widening<folds, true>(pair, context);
  launch_widening<folds, false>(pair, context);
}

WidePair result(const WideningPair& pair) {
  return {{pair.a.to, pair.a.padded_rows, pair.a.slices}, {pair.b.to, pair.b.padded_rows, pair.b.slices}};
}

}  // namespace

WidePair widen_units(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  const WideningPair pair{widening(a, context), widening(b, context), nullptr};
  launch_widening<false>(pair, context);
  return result(pair);
}

FoldedPair fold_scales(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  WideningPair pair{widening(a, context), widening(b, context), nullptr};
  for (Widening* w : {&pair.a, &pair.b}) {
    w->factors = context.scratch<float>(w->from.matrices * w->padded_rows);
    w->places = scale_places(w->from);
  }
  const int64_t flags = pair.a.blocks() + pair.b.blocks();
  pair.unfit = context.scratch<uint8_t>(flags);
  launch_widening<true>(pair, context);
  return {result(pair),
          {pair.a.factors, 1, pair.a.padded_rows},
          {pair.b.factors, 1, pair.b.padded_rows},
          {pair.unfit, flags}};
}

}  // namespace fp4sim::gpu
