// A block of threads widens 32 rows and some slices of one operand. A thread turns 32 codes of a row into 32 bytes, or,
// where k lies across the rows of codes, 8 rows of 16 k; the eight chunks of a slice go to neighbouring lanes, which
// write whole rows of it.
//
// Scales inside: the row has an origin, the scale exponent whose factor in the bytes is 1. int8 holds units (halves)
// times 2^f for 0 ≤ f ≤ 3, so the origin is the row's smallest exponent. A value of e2m1 times 2^f is a normal E5M2
// number for −13 ≤ f ≤ 13, so the origin is the largest less 13, and blocks down to 2^26 below that fit. Blocks of
// scale code 0 must hold zeros only, else the product is unfit; a NaN scale makes its block NaN.
#include "gpu/wide_operand.h"

#include "gpu/widening.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = kWideningThreads;
constexpr int kResident = 4;  // blocks of a multiprocessor: loads wait, so more of them pay for a few spilled words
constexpr int kLargestFold = 13, kLargestShift = 3;
constexpr int kLeastExponent = -60,
              kMostExponent = 50;  // of scales: all sums are then normal numbers, and exact powers

/// What the bytes of a piece are.
enum class Form { plain_units, shifted_units, e5m2 };

/// Which pieces a launch writes.
enum class Pass { all, units_to_e5m2 };

/// The scales of a piece's rows, in shared memory.
struct RowScales {
  int largest[kPieceRows];  // codes; NaN does not count; 0: there are only zeros
  int deepest[kPieceRows];  // 255 − the smallest code but 0
  int origin[kPieceRows];
  uint32_t squares[kPieceRows];  // of the int8 numbers
  int has_nan;
};

/// The bytes of a block of scale code `code`; `fits` becomes false where E5M2 has none.
__device__ Bytes16 block_bytes(Form form, int code, int origin, bool& fits) {
  if (code == kE8m0NaN) return {{0x7F7F7F7Fu, 0x7F7F7F7Fu}, {0x7F7F7F7Fu, 0x7F7F7F7Fu}};
  const bool units = form == Form::shifted_units;
  if (code == 0) return {{0, 0}, {units ? 0u : 0x80808080u, units ? 0u : 0x80808080u}};
  const int exponent = code - kE8m0Bias, fold = code - origin;
  if (units) {
    // Bytes are below 128: 128 − byte borrows from none.
    const uint32_t low = 0x03020100u << fold, high = 0x0C080604u << fold;
    return {{low, high}, {(0x80808080u - low) ^ 0x80808080u, (0x80808080u - high) ^ 0x80808080u}};
  }
  if (fold < -kLargestFold || exponent < kLeastExponent || exponent > kMostExponent) fits = false;
  // E5M2 of 0, 0.5, 1, 1.5, 2, 3, 4, 6 times 2^−13; the exponent field begins at bit 2.
  const uint32_t step = static_cast<uint32_t>(fold < -kLargestFold ? 0 : fold + kLargestFold) << 2;
  const uint32_t low = 0x0A080400u + step * 0x01010100u, high = 0x12100E0Cu + step * 0x01010101u;
  return {{low, high}, {low | 0x80808080u, high | 0x80808080u}};
}

/// True unless a block of scale code 0 has a code that is not zero.
__device__ bool zero_fits(int scale_code, uint32_t codes) { return scale_code != 0 || (codes & 0x77777777u) == 0; }

/// Four scale codes at a time, one a byte, or one at a time.
struct ScaleSpan {
  uint32_t largest = 0, deepest = 0, nan = 0;

  __device__ void add(uint32_t four) {
    const uint32_t is_nan = __vcmpeq4(four, 0x01010101u * kE8m0NaN);
    nan |= is_nan;
    largest = __vmaxu4(largest, four & ~is_nan);
    deepest = __vmaxu4(deepest, ~four & ~__vcmpeq4(four, 0));
  }
  __device__ void publish(RowScales& s, int row, int byte) const {
    atomicMax(&s.largest[row], static_cast<int>(largest >> (8 * byte) & 0xFFu));
    atomicMax(&s.deepest[row], static_cast<int>(deepest >> (8 * byte) & 0xFFu));
    if ((nan >> (8 * byte) & 0xFFu) != 0) s.has_nan = 1;
  }
};

/// Finds the exponents of the rows of a piece.
__device__ void find_spans(const Widening& w, const Piece& piece, RowScales& s) {
  constexpr int kParts = kThreads / kPieceRows, kCodes = 4;  // threads of a row, codes of a word
  const int64_t blocks = (w.from.k + (1 << kBlockShift) - 1) >> kBlockShift;
  const int thread = static_cast<int>(threadIdx.x);
  const bool last = w.from.last;
  if (thread < kPieceRows) s.largest[thread] = s.deepest[thread] = 0, s.squares[thread] = 0;
  if (thread == 0) s.has_nan = 0;
  __syncthreads();
  ScaleSpan span;
  // Neighbouring threads read neighbouring codes: of the blocks of a row, or of the rows of a block.
  if (w.places.row_shift == 0 && (last ? blocks : w.from.rows) % kCodes == 0) {
    const int row = last ? thread / kParts : thread % kParts * kCodes;
    const int first = last ? thread % kParts * kCodes : thread / kParts, step = last ? kParts * kCodes : kPieceRows;
    if (piece.first_row + row < w.from.rows) {
      const uint8_t* codes = scale_codes(w, piece.matrix, piece.first_row + row);
#pragma unroll 8
      for (int64_t block = first; block < blocks; block += step)
        span.add(__ldg(reinterpret_cast<const uint32_t*>(codes + block * w.places.block_step)));
    }
#pragma unroll
    for (int i = 0; i < kCodes; ++i) span.publish(s, last ? row : row + i, i);
  } else {
    const int row = last ? thread / kParts : thread % kPieceRows;
    if (piece.first_row + row < w.from.rows) {
      const uint8_t* codes = scale_codes(w, piece.matrix, piece.first_row + row);
      for (int64_t block = last ? thread % kParts : thread / kPieceRows; block < blocks; block += kParts)
        span.add(__ldg(codes + block * w.places.block_step));
    }
    span.publish(s, row, 0);
  }
  __syncthreads();
}

/// The form of a piece whose exponents are known, and the origins of its rows.
__device__ Form choose_form(RowScales& s, bool certifies) {
  const int row = static_cast<int>(threadIdx.x);
  bool integers = certifies && s.has_nan == 0;
  if (row < kPieceRows) {
    const int top = s.largest[row], low = 255 - s.deepest[row];
    if (top != 0)
      integers = integers && top - low <= kLargestShift && low - kE8m0Bias >= kLeastExponent &&
                 top - kE8m0Bias <= kMostExponent;
  }
  const bool units = __syncthreads_and(integers ? 1 : 0) != 0;
  if (row < kPieceRows) {
    const int top = s.largest[row];
    s.origin[row] = top == 0 ? kE8m0Bias : units ? 255 - s.deepest[row] : top - kLargestFold;
  }
  __syncthreads();
  return units ? Form::shifted_units : Form::e5m2;
}

__device__ uint32_t add_squares(uint32_t sum, uint32_t bytes) {
  return static_cast<uint32_t>(__dp4a(static_cast<int>(bytes), static_cast<int>(bytes), static_cast<int>(sum)));
}

/// The 32 k of a quarter of every second slice of a row.
__device__ bool widen_along(const Widening& w, const Piece& piece, Form form, RowScales& s) {
  constexpr int kQuarters = kSliceBytes / (2 * kChunk), kTogether = kThreads / (kPieceRows * kQuarters);
  const int thread = static_cast<int>(threadIdx.x), quarter = thread % kQuarters;
  const int in_block = thread / kQuarters % kPieceRows;
  const int64_t row = piece.first_row + in_block;
  const bool exists = row < w.from.rows, aligned = w.from.k % 32 == 0, folds = form != Form::plain_units;
  const uint8_t* from = w.from.view.row(piece.matrix * w.from.rows + row);
  const uint8_t* scales = folds && exists ? scale_codes(w, piece.matrix, row) : nullptr;
  const int origin = folds ? s.origin[in_block] : 0;
  bool fits = true;
  uint32_t squares = 0;
  // The loads of several slices are on their way together.
  constexpr int kBatch = 4;
  for (int64_t first = piece.first_slice + thread / (kPieceRows * kQuarters); first < piece.last_slice;
       first += kBatch * kTogether) {
    uint32_t codes[kBatch][4];
    int scale[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t slice = first + i * kTogether, k = slice * kSliceBytes + quarter * 2 * kChunk;
      const bool loads = exists && slice < piece.last_slice && k < w.from.k;
      scale[i] = loads && folds ? __ldg(scales + (k >> kBlockShift) * w.places.block_step) : 0;
      uint4 all = make_uint4(0, 0, 0, 0);
      if (loads && aligned) all = __ldg(reinterpret_cast<const uint4*>(from + k / 2));
      codes[i][0] = all.x, codes[i][1] = all.y, codes[i][2] = all.z, codes[i][3] = all.w;
      if (loads && !aligned) {
#pragma unroll
        for (int word = 0; word < 4; ++word)
          codes[i][word] = load_codes(from + k / 2 + 4 * word, w.from.k - k - 8 * word, false);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t slice = first + i * kTogether;
      if (slice >= piece.last_slice) break;
      Bytes16 table = w.units;
      if (folds) {
        table = block_bytes(form, scale[i], origin, fits);
        fits = fits && zero_fits(scale[i], codes[i][0] | codes[i][1] | codes[i][2] | codes[i][3]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t low[2], high[2];
        bytes_of(codes[i][2 * half], table, low);
        bytes_of(codes[i][2 * half + 1], table, high);
        squares = add_squares(add_squares(add_squares(add_squares(squares, low[0]), low[1]), high[0]), high[1]);
        *reinterpret_cast<uint4*>(place_of_chunk(w, piece.matrix, slice, row, 2 * quarter + half)) =
            make_uint4(low[0], low[1], high[0], high[1]);
      }
    }
  }
  if (form == Form::shifted_units) atomicAdd(&s.squares[in_block], squares);
  return fits;
}

/// Eight rows, one chunk of every eighth slice.
__device__ bool widen_across(const Widening& w, const Piece& piece, Form form, RowScales& s) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), chunk = lane % kChunks, first = lane / kChunks * kGroupRows;
  const int64_t row = piece.first_row + first;
  const bool aligned = w.from.view.layout.row_bytes % 4 == 0, folds = form != Form::plain_units;
  bool fits = true;
  uint32_t squares[kGroupRows] = {};
  for (int64_t slice = piece.first_slice + threadIdx.x / kWarp; slice < piece.last_slice; slice += kThreads / kWarp) {
    const int64_t k = slice * kSliceBytes + chunk * kChunk;
    uint32_t codes[kChunk], bytes[kGroupRows][kChunk / 4];
    load_across(w, piece.matrix, row, k, aligned, codes);
    int scales[kGroupRows];
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
      const bool exists = folds && row + r < w.from.rows && k < w.from.k;
      scales[r] = exists ? __ldg(scale_codes(w, piece.matrix, row + r) + (k >> kBlockShift) * w.places.block_step) : 0;
    }
    turn_codes(codes, bytes);
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
      const Bytes16 table = folds ? block_bytes(form, scales[r], s.origin[first + r], fits) : w.units;
      // Words 2p and 2p + 1 joined have eight nibbles in the order 0 4 1 5 2 6 3 7.
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t joined = bytes[r][2 * pair] | bytes[r][2 * pair + 1] << 4;
        if (folds) fits = fits && zero_fits(scales[r], joined);
        uint32_t wide[2];
        bytes_of(joined, table, wide);
        squares[r] = add_squares(add_squares(squares[r], wide[0]), wide[1]);
        bytes[r][2 * pair] = __byte_perm(wide[0], wide[1], 0x6420);
        bytes[r][2 * pair + 1] = __byte_perm(wide[0], wide[1], 0x7531);
      }
      *reinterpret_cast<uint4*>(place_of_chunk(w, piece.matrix, slice, row + r, chunk)) =
          make_uint4(bytes[r][0], bytes[r][1], bytes[r][2], bytes[r][3]);
    }
  }
  if (form == Form::shifted_units) {
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) atomicAdd(&s.squares[first + r], squares[r]);
  }
  return fits;
}

__device__ bool widen_piece(const Widening& w, const Piece& piece, Form form, RowScales& s) {
  return w.from.last ? widen_along(w, piece, form, s) : widen_across(w, piece, form, s);
}

__global__ void __launch_bounds__(kThreads, kResident) widen_plain(const __grid_constant__ Widenings all) {
  __shared__ RowScales unused;
  const NumberedPiece p = piece_number(all, blockIdx.x);
  const Widening& w = all.of[p.operand];
  widen_piece(w, piece_of(w, p.number), Form::plain_units, unused);
}

/// Writes the factors of a piece's rows: exponents out of range leave any, the product is unfit.
__device__ void store_factors(const Widening& w, const Piece& piece, const RowScales& s) {
  const int row = static_cast<int>(threadIdx.x), exponent = s.origin[row] - kE8m0Bias;
  const int least_kept = kLeastExponent - kLargestFold;
  const int kept = exponent < least_kept ? least_kept : exponent > kMostExponent ? kMostExponent : exponent;
  w.factors[piece.matrix * w.padded_rows + piece.first_row + row] = pow2_f32(kept);
}

/// Widens the pieces blockIdx.x, blockIdx.x + gridDim.x …
template <Pass pass>
__global__ void __launch_bounds__(kThreads, kResident)
    fold_pieces(const __grid_constant__ Widenings all, const __grid_constant__ Certificates certificates) {
  __shared__ RowScales s;
  if constexpr (pass == Pass::units_to_e5m2) {
    __shared__ float bands[2 * kMostBands];
    if (TileFilter(certificates, bands).all_certified()) return;
  }
  const bool certifies = certificates.which != Tiles::all;
  const int64_t pieces = all.pieces();
  for (int64_t item = blockIdx.x; item < pieces; item += gridDim.x) {
    const auto [operand, number] = piece_number(all, item);
    const Widening& w = all.of[operand];
    const Piece piece = piece_of(w, number);
    find_spans(w, piece, s);
    Form form = choose_form(s, certifies);
    if constexpr (pass == Pass::units_to_e5m2) {
      if (form == Form::e5m2) continue;
      form = Form::e5m2;
    }
    if (pass == Pass::all && piece.first_slice == 0 && threadIdx.x < kPieceRows) store_factors(w, piece, s);
    const int unfit = __syncthreads_or(widen_piece(w, piece, form, s) ? 0 : 1);
    if (threadIdx.x == 0) all.unfit[item] = unfit != 0 ? 1 : 0;
    if (pass == Pass::all && threadIdx.x < kWarp) {
      const uint32_t squares = warp_max(s.squares[threadIdx.x]);
      if (threadIdx.x == 0)
        w.squares[number] =
            form == Form::shifted_units && unfit == 0 ? static_cast<float>(squares) : __uint_as_float(kF32Inf);
    }
    __syncthreads();
  }
}

/// The blocks of threads that fill the device with work of this kernel.
int64_t few_blocks(const Context& context) { return kResident * context.multiprocessors(); }

/// Slices of a piece for the shortest time: each has a start, in which it reads all scales of its rows.
int64_t range_of(int64_t row_blocks, int64_t slices, int64_t resident) {
  constexpr int64_t kStart = 4, kMostRanges = 32;  // slices that pass in the time of the start
  int64_t best = slices, least_time = 0;
  for (int64_t ranges = 1; ranges <= std::min(slices, kMostRanges); ++ranges) {
    const int64_t range = ceil_div(slices, ranges);
    const int64_t time = ceil_div(row_blocks * ceil_div(slices, range), resident) * (range + kStart);
    if (ranges > 1 && time >= least_time) continue;
    best = range, least_time = time;
  }
  return best;
}

/// The operands of a side, which lie one after the other.
using Side = std::span<const Widening>;

int64_t matrices_of(Side side) {
  int64_t sum = 0;
  for (const Widening& w : side) sum += w.from.matrices;
  return sum;
}

RowNorms norms_of(Side side) {
  const Widening& w = side.front();
  return {w.squares, matrices_of(side), w.row_blocks(), w.ranges, 1, 1};
}

OperandScales factors_of(Side side) {
  return {side.front().factors, matrices_of(side) == 1 ? 0 : 1, side.front().padded_rows};
}

}  // namespace

WideningPair widening_pair(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, int64_t slice_k,
                           Context& context) {
  WideningPair pair{};
  int64_t row_blocks = 0;
  for (const auto side : {a, b})
    for (const NarrowOperand& o : side) row_blocks += o.matrices * ceil_div(o.rows, kNormRows);
  const int64_t range = range_of(row_blocks, ceil_div(a.front().k, slice_k), few_blocks(context));
  for (const auto side : {a, b}) {
    const int first = pair.work.count;
    for (const NarrowOperand& o : side) {
      Widening& w = pair.work.of[pair.work.count++];
      w.from = o;
      w.padded_rows = ceil_div(o.rows, kWideRows) * kWideRows, w.slices = ceil_div(o.k, slice_k);
      w.range = range;
      w.ranges = ceil_div(w.slices, w.range);
      w.units = units_of(o.view.quantizer.element);
    }
    const Side widened(pair.work.of + first, side.size());
    const int64_t matrix_bytes = widened.front().slices * widened.front().padded_rows * kSliceBytes;
    uint8_t* to = context.scratch<uint8_t>(matrices_of(widened) * matrix_bytes);
    WideOperand& wide = first == 0 ? pair.wide.a : pair.wide.b;
    wide = {to, widened.front().padded_rows, widened.front().slices, matrices_of(widened) == 1 ? 0 : matrix_bytes};
    for (size_t i = 0; i < side.size(); ++i) {
      pair.work.of[first + i].to = to;
      to += side[i].matrices * matrix_bytes;
    }
  }
  return pair;
}

WidePair widen_units(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  const WideningPair pair = widening_pair({&a, 1}, {&b, 1}, kSliceBytes, context);
  context.launch(widen_plain, Context::per_block(pair.work.pieces(), kThreads), pair.work);
  return pair.wide;
}

FoldedPair fold_scales(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, Context& context,
                       bool certifies) {
  constexpr int64_t kLongest = int64_t{1} << 18;  // k of a piece whose sums of squares, 96² at most, fit into 32 bits
  auto [work, wide] = widening_pair(a, b, kSliceBytes, context);
  const Side sides[2] = {{work.of, a.size()}, {work.of + a.size(), b.size()}};
  for (const Side side : sides) {
    const int64_t matrices = matrices_of(side), norms = side.front().row_blocks() * side.front().ranges;
    float* factors = context.scratch<float>(matrices * side.front().padded_rows);
    float* squares = context.scratch<float>(matrices * norms);
    for (Widening& w : std::span(work.of + (side.data() - work.of), side.size())) {
      w.places = scale_places(w.from, kBlockShift);
      w.factors = factors, w.squares = squares;
      factors += w.from.matrices * w.padded_rows, squares += w.from.matrices * norms;
    }
  }
  const int64_t pieces = work.pieces();
  work.unfit = context.scratch<uint8_t>(pieces);
  Certificates certificates{norms_of(sides[0]), norms_of(sides[1]), Tiles::certified};
  certifies = certifies && certificates.matrices() <= kMostBands && work.of[0].range * kSliceBytes <= kLongest;
  if (!certifies) certificates.which = Tiles::all;
  context.launch(fold_pieces<Pass::all>, Context::per_block(pieces, kThreads), work, certificates);
  return {wide, factors_of(sides[0]), factors_of(sides[1]), {work.unfit, pieces}, certificates, work};
}

void fold_units(const FoldedPair& pair, const Certificates& certificates, Context& context) {
  const int64_t pieces = pair.work.pieces();
  context.launch(fold_pieces<Pass::units_to_e5m2>, Context::per_block(std::min(pieces, few_blocks(context)), kThreads),
                 pair.work, certificates);
}

}  // namespace fp4sim::gpu
