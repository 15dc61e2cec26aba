// What the dots of blocks are multiplied by before they are added: nothing where the scales are inside of the operands,
// their rows' scales where these wait (LateRows).
#pragma once

#include "gpu/matmul_direct.cuh"
#include "gpu/product_outputs.cuh"

namespace fp4sim::gpu {

/// Scales have gone into the operands: nothing is left for a block's dot.
struct ScalesInside {
  static constexpr bool kLate = false;
};

/// The scales of a lane's two rows where rows are late: codes of the four blocks of a slice, one a byte.
class LateScales {
 public:
  static constexpr bool kLate = true;

  __device__ LateScales(const DirectProduct& p, const LateRows& late, const Tile& tile, const LanePlace& lane,
                        int64_t rows)
      : side_(p.side_a(tile.matrix)), blocks_((side_.k + (1 << kBlockShift) - 1) >> kBlockShift) {
    const int64_t matrix = p.matrix_of(tile.matrix);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t row = least(lane.row + 8 * h, rows - 1);
      origins_[h] = late.origin(tile.matrix, row);
      codes_[h] = side_.scales + side_.places.of_row(matrix, row);
    }
  }
  /// Reads the codes of a slice of 128 k.
  __device__ void load(int64_t slice) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      slice_[h] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t block = 4 * slice + i;
        if (block < blocks_) slice_[h] |= uint32_t{__ldg(codes_[h] + block * side_.places.block_step)} << (8 * i);
      }
    }
  }
  /// What the dots of a block of the slice are multiplied by: 1 for zeros, NaN and rows whose scales are inside.
  __device__ float factor(int h, int block) const {
    const int code = static_cast<int>(slice_[h] >> (8 * block) & 0xFFu);
    const bool none = origins_[h] == 0 || code == 0 || code == kE8m0NaN;
    return __uint_as_float(static_cast<uint32_t>(none ? 127 : code - origins_[h] + 127) << 23);
  }

 private:
  const DirectSide& side_;
  int64_t blocks_;
  int origins_[2];
  const uint8_t* codes_[2];
  uint32_t slice_[2];
};

/// Adds the dots of a block to the sums: outputs come in pairs of two rows.
template <class Late, int n>
__device__ inline void add_dots(float* sum, const float (&dot)[n], const Late& late, int block) {
  if constexpr (Late::kLate) {
    const float factors[2] = {late.factor(0, block), late.factor(1, block)};
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = fma32(dot[i], factors[i / 2 % 2], sum[i]);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = sum[i] + dot[i];
  }
}

}  // namespace fp4sim::gpu
