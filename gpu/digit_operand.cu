// A block of threads widens 32 rows of some slices: it makes a table of the bytes of every code first. A thread turns
// 16 codes of a row, or, where k lies across the rows of codes, of each of 8 rows, into 16 bytes of every term.
#include "gpu/digit_operand.h"

#include "gpu/packing.cuh"
#include "gpu/widening.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = kWideningThreads;
constexpr int kDigitBits = 7, kMostDigits = 3, kMostSignificand = 7;
constexpr int kCodes = 256;
constexpr int64_t kRange = kThreads / kWarp;  // slices of a block of threads, one for each warp
constexpr uint64_t kNaNMark = uint64_t{1} << 56;

/// One operand on its way: the masks of its digits, and where rows with NaN are told.
struct DigitSide {
  NarrowOperand from;
  uint8_t* to;
  int64_t padded_rows;
  float* scales;  // [matrix][pitch]
  int64_t pitch;
  uint8_t masks[kMostTerms];
};

struct DigitWork {
  DigitSide a, b;
  int terms;
  int64_t k_slices, ranges;

  FP4SIM_HD int64_t pieces(const DigitSide& s) const { return s.from.matrices * (s.padded_rows / kPieceRows) * ranges; }
};

/// The bytes of a code, of term t in byte t; those of NaN and Inf are zero under the mark.
__device__ uint64_t bytes_of_code(uint32_t code, const ElementFormat& f, const DigitSide& s) {
  const uint32_t sign_bit = 1u << (f.bits - 1), magnitude = code & (sign_bit - 1u);
  if (f.specials != Specials::none && magnitude > max_normal_code(f)) return kNaNMark;
  const bool integer = f.encoding == Encoding::twos_complement;  // of one digit: its byte as it is
  const uint32_t field = magnitude >> f.mantissa_bits, fraction = magnitude & ((1u << f.mantissa_bits) - 1u);
  const uint32_t unit = field == 0 ? fraction : (fraction | 1u << f.mantissa_bits) << (field - 1);
  const uint32_t whole = magnitude - (code & sign_bit);
  uint64_t bytes = 0;
#pragma unroll
  for (int term = 0; term < kMostTerms; ++term) {
    uint32_t sum = 0;
#pragma unroll
    for (int digit = 0; digit < kMostDigits; ++digit)
      if ((s.masks[term] >> digit & 1) != 0) sum |= unit >> (digit * kDigitBits);
    sum &= (1u << kDigitBits) - 1u;
    if ((code & sign_bit) != 0) sum = 0u - sum;
    bytes |= static_cast<uint64_t>((integer ? whole : sum) & 0xFFu) << (8 * term);
  }
  return bytes;
}

/// Where a thread writes: its chunk of a row and slice, for term 0, and the bytes between two terms.
struct Target {
  uint8_t* first;
  int64_t term_step;
};

__device__ Target target_of(const DigitWork& w, const DigitSide& s, int64_t matrix, int64_t slice, int64_t row,
                            int chunk) {
  const int64_t term_step = w.k_slices * s.padded_rows * kSliceBytes;
  return {s.to + matrix * w.terms * term_step + (slice * s.padded_rows + row) * kSliceBytes +
              (chunk ^ (static_cast<int>(row) % kGroupRows)) * kChunk,
          term_step};
}

/// Writes the bytes of 16 codes code(0), code(1) …; returns whether one is NaN or Inf.
template <class Code>
__device__ bool store_digits(const uint64_t* table, const Target& to, int terms, const Code& code) {
  constexpr int kQuads = kChunk / 4;
  uint32_t words[8][kQuads];
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    uint32_t low[4], high[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint64_t bytes = table[code(4 * quad + i)];
      low[i] = static_cast<uint32_t>(bytes), high[i] = static_cast<uint32_t>(bytes >> 32);
    }
    turn(low[0], low[1], low[2], low[3]);
    turn(high[0], high[1], high[2], high[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i][quad] = low[i], words[4 + i][quad] = high[i];
  }
#pragma unroll
  for (int term = 0; term < kMostTerms; ++term)
    if (term < terms)
      *reinterpret_cast<uint4*>(to.first + term * to.term_step) =
          make_uint4(words[term][0], words[term][1], words[term][2], words[term][3]);
  return (words[7][0] | words[7][1] | words[7][2] | words[7][3]) != 0;
}

__device__ void mark_row(const DigitSide& s, int64_t matrix, int64_t row) {
  s.scales[matrix * s.pitch + row] = canonical_nan();
}

/// Codes of 16 k of one row of codes: thread 8·row + chunk of every slice.
__device__ void widen_along(const DigitWork& w, const DigitSide& s, const Piece& piece, const uint64_t* table) {
  const int chunk = static_cast<int>(threadIdx.x) % kChunks, bits = s.from.view.quantizer.element.bits;
  const int64_t row = piece.first_row + threadIdx.x / kChunks;
  const bool exists = row < s.from.rows, vectors = bits == 8 && s.from.k % kChunk == 0;
  const uint8_t* from = s.from.view.row(piece.matrix * s.from.rows + row);
  bool nan = false;
  for (int64_t slice = piece.first_slice; slice < piece.last_slice; ++slice) {
    const int64_t k = slice * kSliceBytes + chunk * kChunk;
    const int count = exists ? static_cast<int>(least(s.from.k - k, kChunk)) : 0;
    uint32_t codes[kChunk / 4] = {};  // one a byte
    if (vectors && count > 0) {
      const uint4 all = __ldg(reinterpret_cast<const uint4*>(from + k));
      codes[0] = all.x, codes[1] = all.y, codes[2] = all.z, codes[3] = all.w;
    } else {
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        if (i < count) codes[i / 4] |= load_code(from, k + i, bits) << (i % 4 * 8);
    }
    const Target to = target_of(w, s, piece.matrix, slice, row, chunk);
    if (store_digits(table, to, w.terms, [&](int i) { return codes[i / 4] >> (i % 4 * 8) & 0xFFu; })) nan = true;
  }
  if (nan) mark_row(s, piece.matrix, row);
}

/// Codes of 8 rows, neighbours in the rows of codes, and 16 k: a warp has one slice of 32 rows.
__device__ void widen_across(const DigitWork& w, const DigitSide& s, const Piece& piece, const uint64_t* table) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), chunk = lane % kChunks;
  const int bits = s.from.view.quantizer.element.bits;
  const int64_t row = piece.first_row + lane / kChunks * kGroupRows, slice = piece.first_slice + threadIdx.x / kWarp;
  if (slice >= piece.last_slice) return;
  const int64_t k = slice * kSliceBytes + chunk * kChunk;
  const int count = static_cast<int>(least(s.from.rows - row, kGroupRows));
  const bool vectors = bits == 8 && s.from.rows % kGroupRows == 0;
  uint2 codes[kChunk];  // rows 0 … 3, 4 … 7
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    codes[i] = make_uint2(0, 0);
    if (k + i >= s.from.k || count <= 0) continue;
    const uint8_t* from = s.from.view.row(piece.matrix * s.from.k + k + i);
    if (vectors) {
      codes[i] = __ldg(reinterpret_cast<const uint2*>(from + row));
    } else {
      for (int r = 0; r < count; ++r) {
        const uint32_t code = load_code(from, row + r, bits) << (r % 4 * 8);
        if (r < 4) codes[i].x |= code;
        if (r >= 4) codes[i].y |= code;
      }
    }
  }
#pragma unroll 1
  for (int r = 0; r < kGroupRows; ++r) {
    const Target to = target_of(w, s, piece.matrix, slice, row + r, chunk);
    const auto code = [&](int i) { return (r < 4 ? codes[i].x : codes[i].y) >> (r % 4 * 8) & 0xFFu; };
    if (store_digits(table, to, w.terms, code)) mark_row(s, piece.matrix, row + r);
  }
}

__global__ void __launch_bounds__(kThreads) widen_pieces(const __grid_constant__ DigitWork w) {
  __shared__ uint64_t table[kCodes];
  const bool is_a = blockIdx.x < w.pieces(w.a);
  const DigitSide& s = is_a ? w.a : w.b;
  const ElementFormat& f = s.from.view.quantizer.element;
  for (int code = static_cast<int>(threadIdx.x); code < 1 << f.bits; code += kThreads)
    table[code] = bytes_of_code(static_cast<uint32_t>(code), f, s);
  __syncthreads();
  const int64_t number = is_a ? blockIdx.x : blockIdx.x - w.pieces(w.a), row_blocks = s.padded_rows / kPieceRows;
  const int64_t outer = quotient(number, row_blocks), matrix = quotient(outer, w.ranges);
  const int64_t first_slice = (outer - matrix * w.ranges) * kRange;
  const Piece piece{matrix, (number - outer * row_blocks) * kPieceRows, first_slice,
                    least(first_slice + kRange, w.k_slices)};
  if (s.from.last) {
    widen_along(w, s, piece, table);
  } else {
    widen_across(w, s, piece, table);
  }
}

int digits_of(const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) return 1;
  return static_cast<int>(ceil_div(significand_span_bits(f), kDigitBits));
}

bool has_digits(const ElementFormat& f) {
  if (f.bits > 8) return false;
  return f.encoding == Encoding::twos_complement || (f.mantissa_bits < kMostSignificand && digits_of(f) <= kMostDigits);
}

/// The terms of numbers of so many digits.
DigitTerms terms_of(int digits_a, int digits_b) {
  DigitTerms terms{};
  const auto add = [&](int mask_a, int mask_b, int32_t weight) {
    terms.term[terms.count++] = {static_cast<uint8_t>(mask_a), static_cast<uint8_t>(mask_b), weight};
  };
  const auto power = [](int i) { return int32_t{1} << (kDigitBits * i); };
  const int fewer = std::min(digits_a, digits_b), digits = std::max(digits_a, digits_b);
  if (fewer == 1) {
    for (int i = 0; i < digits; ++i) add(digits_a == 1 ? 1 : 1 << i, digits_b == 1 ? 1 : 1 << i, power(i));
    return terms;
  }
  for (int i = 0; i < fewer; ++i) {
    int32_t weight = power(2 * i);
    for (int j = 0; j < digits; ++j)
      if (j != i) weight -= power(i + j);
    add(1 << i, 1 << i, weight);
  }
  for (int i = 0; i < digits; ++i)
    for (int j = i + 1; j < digits; ++j) add(1 << i | 1 << j, 1 << i | 1 << j, power(i + j));
  return terms;
}

}  // namespace

bool digits_take(const ElementFormat& a, const ElementFormat& b) {
  const int exponent = min_step_exponent(a) + min_step_exponent(b);
  return has_digits(a) && has_digits(b) && exponent >= -100 && exponent <= 60;
}

DigitPair widen_digits(const NarrowOperand& a, const NarrowOperand& b, const OperandScales& scales_a,
                       const OperandScales& scales_b, Context& context) {
  DigitPair pair{};
  pair.terms = terms_of(digits_of(a.view.quantizer.element), digits_of(b.view.quantizer.element));
  pair.k_slices = ceil_div(a.k, kSliceBytes);
  DigitWork work{};
  work.terms = pair.terms.count, work.k_slices = pair.k_slices, work.ranges = ceil_div(pair.k_slices, kRange);
  for (const bool is_a : {true, false}) {
    DigitSide& s = is_a ? work.a : work.b;
    const OperandScales& scales = is_a ? scales_a : scales_b;
    s.from = is_a ? a : b;
    s.padded_rows = ceil_div(s.from.rows, kWideRows) * kWideRows;
    s.scales = const_cast<float*>(scales.data);  // this product's own scratch
    s.pitch = scales.blocks * scales.pitch;
    for (int t = 0; t < work.terms; ++t) s.masks[t] = is_a ? pair.terms.term[t].mask_a : pair.terms.term[t].mask_b;
    const int64_t slices = work.terms * work.k_slices, matrix_bytes = slices * s.padded_rows * kSliceBytes;
    s.to = context.scratch<uint8_t>(s.from.matrices * matrix_bytes);
    (is_a ? pair.wide.a : pair.wide.b) = {s.to, s.padded_rows, slices, matrix_bytes};
  }
  context.launch(widen_pieces, Context::per_block(work.pieces(work.a) + work.pieces(work.b), kThreads), work);
  return pair;
}

}  // namespace fp4sim::gpu
