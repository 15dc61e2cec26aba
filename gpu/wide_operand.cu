// Scales inside: the row has an origin, the scale exponent whose factor in the bytes is 1. int8 holds units (halves)
// times 2^f for 0 ≤ f ≤ 3, so the origin is the row's smallest exponent. A value of e2m1 times 2^f is a normal E5M2
// number for −13 ≤ f ≤ 13, so the origin is the largest less 13, and blocks down to 2^26 below that fit. Blocks of
// scale code 0 must hold zeros only, else the product is unfit; a NaN scale makes its block NaN. Rows of a with a wider
// span keep their scales for later (LateRows): all sums are multiples of 2^−149 there too, so that none is rounded that
// is not by the rule.
#include "gpu/wide_operand.h"

#include "gpu/scale_span.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = kWideningThreads;
constexpr int kResident = 4, kCertifying = 3;  // blocks of a multiprocessor, for which the registers must do
constexpr int kLargestFold = 13, kLargestShift = 3;
constexpr int kLeastExponent = -60,
              kMostExponent = 50;  // of scales: all sums are then normal numbers, and exact powers
constexpr int kLeastLate = -85;    // of scales of late rows: 2^−85 · 2^−60 · ¼ is a multiple of 2^−149

/// True in those threads that write what the whole row has in common.
template <int rows>
__device__ bool writes_rows() {
  return rows == kGroupRows ? threadIdx.x < kWideRows / kGroupRows : threadIdx.x % kChunks == 0;
}

/// True for the exponents of scales that leave all sums exact.
__device__ bool moderate(int code) {
  return static_cast<uint32_t>(code - kE8m0Bias - kLeastExponent) <= kMostExponent - kLeastExponent;
}

/// The origin of a row whose numbers are E5M2: scales from its largest down to 2^26 below, or the least, are numbers.
__device__ int e5m2_origin(const RowSpan& span) {
  return max(span.top == 0 ? kE8m0Bias : span.top - kLargestFold, kE8m0Bias + kLeastExponent + kLargestFold);
}

/// Writes the factors of the rows: exponents above the range leave any, the product is unfit.
template <int rows>
__device__ void store_factors(const NumberedPiece& p, const int (&origin)[rows]) {
  if (p.range != 0 || !writes_rows<rows>()) return;
  float* factors = p.w.factors + p.matrix * p.w.padded_rows() + p.first_row;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    // The bits of powers of two that are normal numbers.
    factors[row_in_piece<rows>(r)] = __uint_as_float(static_cast<uint32_t>(origin[r] - kE8m0Bias + 127) << 23);
  }
}

/// Writes whether a piece is unfit; true in all threads if it is.
__device__ bool store_unfit(const NumberedPiece& p, uint32_t misfits) {
  const bool unfit = __syncthreads_or(misfits != 0 ? 1 : 0) != 0;
  if (threadIdx.x == 0) p.all.unfit[p.number] = unfit ? 1 : 0;
  return unfit;
}

/// Writes the factors of the piece's late rows, whose origins are those of `origins` that are not 0: exponent fields of
/// binary32, 1 for zeros and NaN. The whole block of threads calls.
__device__ void store_late_factors(const NumberedPiece& p, const uint8_t (&origins)[kWideRows]) {
  constexpr int kBlocks = kSliceBytes >> kBlockShift, kOne = 127;  // blocks of a slice
  const int in_piece = static_cast<int>(threadIdx.x % kWideRows), origin = origins[in_piece];
  if (origin == 0) return;
  const int64_t row = p.first_row + in_piece, blocks = scale_blocks(p.w.k);
  const uint8_t* codes = scale_codes(p, least(row, p.w.rows - 1));  // nobody sees what padding gets
#pragma unroll 1
  for (int64_t slice = p.first_slice + threadIdx.x / kWideRows; slice < p.last_slice;
       slice += kWideningThreads / kWideRows) {
    uint32_t fields = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int64_t block = slice * kBlocks + i;
      const int code = block < blocks ? codes[block * p.w.places.block_step] : 0;
      const int field = code == 0 || code == kE8m0NaN ? kOne : code - origin + kOne;
      fields |= static_cast<uint32_t>(field) << (8 * i);
    }
    p.w.late_factors[(p.matrix * p.all.slices + slice) * p.w.padded_rows() + row] = fields;
  }
}

/// The magnitudes of 16 codes, not zero if one of them is not.
__device__ uint32_t magnitudes(const uint32_t (&codes)[2]) { return (codes[0] | codes[1]) & 0x77777777u; }

/// The E5M2 numbers of a row's codes. `least`: the code of the smallest scale that has any, a factor of 2^−13.
/// `misfits` gets bits where a number has none.
__device__ uint4 e5m2_chunk(const uint32_t (&codes)[2], int code, int least, uint32_t& misfits) {
  const uint32_t step = static_cast<uint32_t>(code - least);
  // Any step leaves zeros as they are.
  misfits |= code == 0 ? magnitudes(codes) : step & 0x80000000u;
  // E5M2 of 0, 0.5, 1, 1.5, 2, 3, 4, 6 times 2^−13; the exponent field begins at bit 2.
  uint32_t low = 0x0A080400u + step * 0x04040400u, high = 0x12100E0Cu + step * 0x04040404u;
  if (code == kE8m0NaN) low = high = 0x7F7F7F7Fu;
  uint32_t bytes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t select = (codes[i / 2] & 0x77777777u) >> (16 * (i % 2));
    const uint32_t signs = permute_bytes(codes[i / 2], codes[i / 2] << 4, kSignBytes[i % 2]);
    bytes[i] = permute_bytes(low, high, select) | (signs & 0x80808080u);
  }
  return make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

__device__ uint4 units_of_chunk(const uint32_t (&codes)[2], const Bytes16& units) {
  uint32_t low[2], high[2];
  bytes_of(codes[0], units, low);
  bytes_of(codes[1], units, high);
  return make_uint4(low[0], low[1], high[0], high[1]);
}

__device__ uint32_t add_squares(uint32_t sum, uint32_t bytes) {
  return static_cast<uint32_t>(__dp4a(static_cast<int>(bytes), static_cast<int>(bytes), static_cast<int>(sum)));
}

/// What all encoders of bytes with scales inside share.
struct FoldedChunks {
  static constexpr int kChunkK = 16, kScaleShift = kBlockShift;
  static constexpr bool kScaled = true;
};

struct FoldingTable {
  SpanTable spans;
  uint8_t origins[kWideRows];  // of late rows; 0 of others
};

/// E5M2 numbers.
template <int rows, bool whole>
struct Folding : FoldedChunks {
  static constexpr int kAnyScale = -1;  // `least` of late rows

  FoldingTable& table;
  int least[rows] = {};
  uint32_t misfits = 0;
  bool late = false;

  __device__ explicit Folding(FoldingTable& shared) : table(shared) {}
  __device__ void start(const NumberedPiece& p) {
    RowSpan spans[rows];
    find_spans<whole>(p, table.spans, spans);
    int origin[rows];
    const bool may_wait = p.w.late_rows != nullptr;
    uint8_t* late_rows = p.w.late_rows + p.matrix * p.w.padded_rows() + p.first_row;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const RowSpan& s = spans[r];
      origin[r] = e5m2_origin(s), least[r] = origin[r] - kLargestFold;
      if (s.top > kE8m0Bias + kMostExponent) misfits = 1;
      const bool waits = may_wait && s.top != 0 && s.low < least[r] && s.low >= kE8m0Bias + kLeastLate;
      if (waits) least[r] = kAnyScale, late = true;
      if (!may_wait || !writes_rows<rows>()) continue;
      table.origins[row_in_piece<rows>(r)] = static_cast<uint8_t>(waits ? origin[r] : 0);
      if (p.range == 0) late_rows[row_in_piece<rows>(r)] = waits ? 1 : 0;
    }
    store_factors(p, origin);
  }
  __device__ uint4 chunk(int r, const uint32_t (&codes)[2], uint32_t code) {
    const int scale = static_cast<int>(code);
    return e5m2_chunk(codes, scale, least[r] == kAnyScale ? scale - kLargestFold : least[r], misfits);
  }
  __device__ void finish(const NumberedPiece& p) {
    store_unfit(p, misfits);
    if (__syncthreads_or(late ? 1 : 0) != 0) store_late_factors(p, table.origins);
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
    return e5m2_chunk(codes, static_cast<int>(code), least[r], misfits);
  }
  __device__ void finish(const NumberedPiece&) {}
};

struct CertifyingTable {
  SpanTable spans;
  uint32_t squares[kWideRows];  // sums of the rows' int8 numbers
};

/// int8 units where all rows of the piece have few exponents, else E5M2 numbers.
template <int rows, bool whole>
struct Certifying : FoldedChunks {
  CertifyingTable& table;
  int least[rows] = {};  // of units: the origin
  uint32_t squares[rows] = {};
  uint32_t misfits = 0;
  bool units = false;

  __device__ explicit Certifying(CertifyingTable& shared) : table(shared) {}
  __device__ void start(const NumberedPiece& p) {
    if (threadIdx.x < kWideRows) table.squares[threadIdx.x] = 0;
    RowSpan spans[rows];
    bool integers = !find_spans<whole>(p, table.spans, spans);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const RowSpan& s = spans[r];
      const bool few = s.top - s.low <= kLargestShift && moderate(s.low) && moderate(s.top);
      integers = integers && (s.top == 0 || few);
      if (s.top > kE8m0Bias + kMostExponent) misfits = 1;
    }
    units = __syncthreads_and(integers ? 1 : 0) != 0;
    int origin[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      origin[r] = units && spans[r].top != 0 ? spans[r].low : e5m2_origin(spans[r]);
      least[r] = units ? origin[r] : origin[r] - kLargestFold;
    }
    store_factors(p, origin);
  }
  __device__ uint4 chunk(int r, const uint32_t (&codes)[2], uint32_t scale) {
    const int code = static_cast<int>(scale);
    if (!units) return e5m2_chunk(codes, code, least[r], misfits);
    const bool empty = code == 0;
    if (empty) misfits |= magnitudes(codes);
    const int shift = empty ? 0 : code - least[r];
    // Bytes are below 128: 128 − byte borrows from none.
    const uint32_t low = 0x03020100u << shift, high = 0x0C080604u << shift;
    const Bytes16 block{{low, high}, {(0x80808080u - low) ^ 0x80808080u, (0x80808080u - high) ^ 0x80808080u}};
    const uint4 bytes = units_of_chunk(codes, block);
    squares[r] = add_squares(add_squares(add_squares(add_squares(squares[r], bytes.x), bytes.y), bytes.z), bytes.w);
    return bytes;
  }
  __device__ void finish(const NumberedPiece& p) {
    if (units) {
#pragma unroll
      for (int r = 0; r < rows; ++r) atomicAdd(&table.squares[row_in_piece<rows>(r)], squares[r]);
    }
    const bool unfit = store_unfit(p, misfits);
    if (threadIdx.x >= kWideRows) return;
    const uint32_t most = warp_max(table.squares[threadIdx.x]);
    if (threadIdx.x % kNormRows == 0)
      p.squares()[threadIdx.x / kNormRows] = units && !unfit ? static_cast<float>(most) : __uint_as_float(kF32Inf);
  }
};

/// int8 units of elements without scales inside.
template <int rows, bool whole>
struct PlainUnits : FoldedChunks {
  static constexpr bool kScaled = false;
  const Bytes16& units;

  __device__ explicit PlainUnits(const Bytes16& all) : units(all) {}
  __device__ void start(const NumberedPiece&) {}
  __device__ uint4 chunk(int, const uint32_t (&codes)[2], uint32_t) { return units_of_chunk(codes, units); }
  __device__ void finish(const NumberedPiece&) {}
};

/// The units of the elements of both sides.
struct SideUnits {
  Bytes16 a, b;
};

__global__ void __launch_bounds__(kThreads, kResident)
    widen_plain(const __grid_constant__ Widenings all, const __grid_constant__ SideUnits units) {
  widen_piece<PlainUnits>(own_piece(all), blockIdx.x < all.of[1].first_column ? units.a : units.b);
}

__global__ void __launch_bounds__(kThreads, kResident) fold(const __grid_constant__ Widenings all) {
  __shared__ FoldingTable table;
  widen_piece<Folding>(own_piece(all), table);
}

__global__ void __launch_bounds__(kThreads, kCertifying) fold_or_certify(const __grid_constant__ Widenings all) {
  __shared__ CertifyingTable table;
  widen_piece<Certifying>(own_piece(all), table);
}

/// The pieces of units as E5M2 numbers, unless every tile is certified.
__global__ void __launch_bounds__(kThreads, kResident)
    fold_rest(const __grid_constant__ Widenings all, const __grid_constant__ Certificates certificates) {
  __shared__ float bands[2 * kMostBands];
  if (TileFilter(certificates, bands).all_certified()) return;
  for (uint32_t column = blockIdx.x; column < all.columns; column += gridDim.x) {
    const NumberedPiece p = piece_at(all, column, blockIdx.y);
    if (__ldcg(p.squares()) < __uint_as_float(kF32Inf)) widen_piece<Refolding>(p);
  }
}

/// Slices of a piece for the shortest time. Each piece reads all scales of its rows first; pieces that share a
/// multiprocessor, as many as are `resident`, wait at the same time, which costs nothing while they are few.
int64_t range_of(int64_t row_blocks, int64_t slices, int64_t processors, int64_t resident) {
  constexpr double kScales = 1.0 / 48, kStart = 2, kFree = 2.5;  // times of a slice: its scales, a piece's start
  constexpr int64_t kMostRanges = 32;
  int64_t best = slices;
  double least_time = 0;
  for (int64_t ranges = 1; ranges <= std::min(slices, kMostRanges); ++ranges) {
    const int64_t range = ceil_div(slices, ranges), pieces = row_blocks * ceil_div(slices, range);
    const int64_t rounds = ceil_div(pieces, resident * processors);
    const double together = static_cast<double>(std::min(ceil_div(pieces, processors), resident));
    const double piece = static_cast<double>(range) + kStart + kScales * static_cast<double>(slices);
    const double time = static_cast<double>(rounds) * piece * std::max(1.0, together / kFree);
    if (ranges > 1 && time >= least_time) continue;
    best = range, least_time = time;
  }
  return best;
}

/// The operands of a side, which lie one after the other.
using Side = std::span<Widening>;

int64_t matrices_of(Side side) {
  int64_t sum = 0;
  for (const Widening& w : side) sum += w.matrices;
  return sum;
}

RowNorms norms_of(Side side, int64_t ranges) {
  return {side.front().squares, matrices_of(side), side.front().padded_rows() / kNormRows, ranges, 1, 1};
}

OperandScales factors_of(Side side) {
  return {side.front().factors, matrices_of(side) == 1 ? 0 : 1, side.front().padded_rows()};
}

}  // namespace

WideningPair widening_pair(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, int64_t slice_k,
                           int scale_shift, int64_t resident, Context& context) {
  WideningPair pair{};
  Widenings& work = pair.work;
  work.slices = ceil_div(a.front().k, slice_k);
  int64_t row_blocks = 0;
  for (const auto side : {a, b}) {
    const int64_t rows = ceil_div(side.front().rows, kWideRows) * kWideRows;
    const int64_t matrix_bytes = work.slices * rows * kSliceBytes;
    int64_t matrices = 0;
    for (const NarrowOperand& o : side) matrices += o.matrices;
    uint8_t* to = context.scratch<uint8_t>(matrices * matrix_bytes);
    (work.count == 0 ? pair.wide.a : pair.wide.b) = {to, rows, work.slices, matrices == 1 ? 0 : matrix_bytes};
    for (const NarrowOperand& o : side) {
      Widening w{o.view.codes,
                 static_cast<const uint8_t*>(o.view.scales),
                 scale_places(o, scale_shift),
                 o.view.layout.row_bytes,
                 o.matrices,
                 o.rows,
                 o.k,
                 o.last,
                 to};
      w.row_pieces = static_cast<uint32_t>(rows / kWideRows);
      work.of[work.count++] = w;
      to += o.matrices * matrix_bytes;
      row_blocks += o.matrices * (rows / kWideRows);
    }
  }
  work.range = range_of(row_blocks, work.slices, context.multiprocessors(), resident);
  work.ranges = static_cast<uint32_t>(ceil_div(work.slices, work.range));
  for (Widening& w : Side(work.of, work.count)) {
    w.first_column = work.columns;
    work.columns += static_cast<uint32_t>(w.matrices) * w.row_pieces;
  }
  return pair;
}

WidePair widen_units(const NarrowOperand& a, const NarrowOperand& b, Context& context) {
  const WideningPair pair = widening_pair({&a, 1}, {&b, 1}, kSliceBytes, kBlockShift, kResident, context);
  const SideUnits units{units_of(a.view.quantizer.element), units_of(b.view.quantizer.element)};
  context.launch(widen_plain, grid_of(pair.work), pair.work, units);
  return pair.wide;
}

FoldedPair fold_scales(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b, Context& context,
                       bool certifies) {
  constexpr int64_t kLongest = int64_t{1} << 18;  // k of a piece whose sums of squares, 96² at most, fit into 32 bits
  auto [work, wide] = widening_pair(a, b, kSliceBytes, kBlockShift, certifies ? kCertifying : kResident, context);
  const Side sides[2] = {{work.of, a.size()}, {work.of + a.size(), b.size()}};
  for (const Side side : sides) {
    const int64_t rows = side.front().padded_rows(), norms = rows / kNormRows * work.ranges;
    float* factors = context.scratch<float>(matrices_of(side) * rows);
    float* squares = context.scratch<float>(matrices_of(side) * norms);
    for (Widening& w : side) {
      w.factors = factors, w.squares = squares;
      factors += w.matrices * rows, squares += w.matrices * norms;
    }
  }
  work.unfit = context.scratch<uint8_t>(work.pieces());
  const int64_t rows_a = sides[0].front().padded_rows();
  Certificates certificates{norms_of(sides[0], work.ranges), norms_of(sides[1], work.ranges), Tiles::certified};
  certifies = certifies && certificates.matrices() <= kMostBands && work.range * kSliceBytes <= kLongest;
  LateRows late{};
  if (!certifies) {
    certificates.which = Tiles::all;
    const int64_t matrices = matrices_of(sides[0]);
    uint8_t* waits = context.scratch<uint8_t>(matrices * rows_a);
    uint32_t* late_factors = context.scratch<uint32_t>(matrices * work.slices * rows_a);
    late = {waits, late_factors, matrices == 1 ? 0 : 1, rows_a, work.slices};
    for (Widening& w : sides[0]) {
      w.late_rows = waits, w.late_factors = late_factors;
      waits += w.matrices * rows_a, late_factors += w.matrices * work.slices * rows_a;
    }
  }
  context.launch(certifies ? fold_or_certify : fold, grid_of(work), work);
  return {wide, factors_of(sides[0]), factors_of(sides[1]), {work.unfit, work.pieces()}, late, certificates, work};
}

void fold_units(const FoldedPair& pair, const Certificates& certificates, Context& context) {
  Grid grid = grid_of(pair.work);
  const int64_t few = ceil_div(kResident * context.multiprocessors(), pair.work.ranges);
  grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(few));
  context.launch(fold_rest, grid, pair.work, certificates);
}

}  // namespace fp4sim::gpu
