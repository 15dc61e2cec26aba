// int8 holds units (halves) times 2^f for 0 ≤ f ≤ 3, so the origin of a row of them is its smallest exponent
// (folding.cuh has those of E5M2). The launches of all ways to widen an operand.
#include "gpu/wide_operand.h"

#include "gpu/folding.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = kWideningThreads;
constexpr int kResident = 4, kCertifying = 3;  // blocks of a multiprocessor, for which the registers must do
constexpr int kLargestShift = 3;

/// True for the exponents of scales that leave all sums exact.
__device__ bool moderate(int code) {
  return static_cast<uint32_t>(code - kE8m0Bias - kLeastExponent) <= kMostExponent - kLeastExponent;
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

/// Writes the factors of the rows of a piece.
template <int rows>
__device__ void store_factors(const NumberedPiece& p, const int (&origin)[rows]) {
  if (p.range != 0 || !writes_rows<rows>()) return;
  float* factors = p.w.factors + p.matrix * p.w.padded_rows() + p.first_row;
#pragma unroll
  for (int r = 0; r < rows; ++r) factors[row_in_piece<rows>(r)] = factor_of(origin[r]);
}

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
    if (!units) return folded_chunk(codes, code, least[r], misfits);
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
    const bool unfit = __syncthreads_or(misfits != 0 ? 1 : 0) != 0;
    if (threadIdx.x == 0) p.all.unfit[p.number] = unfit ? UnfitFlags::kUnfit : 0;
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
