// Codes of 4 bits, eight at a time, as bytes of a table, and the places of the scales of blocks of 32.
#pragma once

#include "gpu/packed_view.cuh"
#include "gpu/tensor_core.cuh"

namespace fp4sim::gpu {

/// A packed operand and how it lies: k along its rows of codes (axis last), or across them.
struct NarrowOperand {
  PackedView view;
  bool last;
  int64_t matrices, rows, k;
};

constexpr int kBlockShift = 5;  // blocks of 32 k

/// The bytes of the eight magnitudes of a code, positive and negative.
struct Bytes16 {
  uint32_t positive[2], negative[2];
};

/// permute_bytes spreads with it the signs of codes 0 … 3 (4 … 7) of eight `codes` over a byte each; y is codes << 4,
/// which brings the signs of the even ones to the tops of bytes.
__device__ constexpr uint32_t kSignBytes[2] = {0x9D8C, 0xBFAE};

/// The bytes of eight codes, the first in the low nibble and the low byte.
__device__ inline void bytes_of(uint32_t codes, const Bytes16& table, uint32_t (&bytes)[2]) {
  const uint32_t magnitudes = codes & 0x77777777u, even = codes << 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t select = magnitudes >> (16 * half);
    const uint32_t positive = __byte_perm(table.positive[0], table.positive[1], select);
    const uint32_t negative = __byte_perm(table.negative[0], table.negative[1], select);
    // The top bits of the bytes of `even` and `codes` are the signs; the selector spreads them over a byte each.
    const uint32_t signs = permute_bytes(codes, even, kSignBytes[half]);
    bytes[half] = (positive & ~signs) | (negative & signs);
  }
}

/// Where the scale of the block at (row, k) lies, without divisions.
struct ScalePlaces {
  int64_t matrix_step, row_step, block_step;
  int row_shift;  // 5 where 32 rows share a scale, 4 where 16

  FP4SIM_HD int64_t of_row(int64_t matrix, int64_t row) const {
    return matrix * matrix_step + (row >> row_shift) * row_step;
  }
};

/// The places of the scales of an operand in blocks of 2^shift k, or square tiles of that side. Host only.
inline ScalePlaces scale_places(const NarrowOperand& o, int shift) {
  const Layout& l = o.view.layout;
  const int64_t matrix_step = l.grid_rows * l.grid_cols;
  if (o.last) return {matrix_step, l.grid_cols, 1, l.row_step == 1 ? 0 : shift};
  return {matrix_step, 1, l.grid_cols, l.col_step == 1 ? 0 : shift};
}

/// The int8 units of a format of 4 bits. Host only.
inline Bytes16 units_of(const ElementFormat& f) {
  Bytes16 units{};
  for (int code = 0; code < 16; ++code) {
    const int magnitude = code & 7, field = magnitude >> f.mantissa_bits;
    const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
    int unit = field == 0 ? fraction : (fraction | 1 << f.mantissa_bits) << (field - 1);
    if (f.encoding == Encoding::twos_complement) {
      unit = code < 8 ? magnitude : magnitude - 8;
    } else if (code >= 8) {
      unit = -unit;
    }
    uint32_t* half = code < 8 ? units.positive : units.negative;
    half[magnitude / 4] |= (static_cast<uint32_t>(unit) & 0xFFu) << (8 * (magnitude % 4));
  }
  return units;
}

/// Eight codes of a row of codes, of which `count` exist.
__device__ inline uint32_t load_codes(const uint8_t* bytes, int64_t count, bool aligned) {
  if (count >= 8 && aligned) return *reinterpret_cast<const uint32_t*>(bytes);
  uint32_t codes = 0;
#pragma unroll 1  // rare, so rather short than fast
  for (int i = 0; i < 8 && i < count; i += 2) codes |= uint32_t{bytes[i / 2]} << (4 * i);
  return count < 8 ? codes & ((1u << (4 * (count > 0 ? count : 0))) - 1u) : codes;
}

}  // namespace fp4sim::gpu
