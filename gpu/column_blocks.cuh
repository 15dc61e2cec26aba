// Blocks that run down the columns of a tile: their maxima and factors in shared memory, their scales, their codes.
#pragma once

#include "gpu/column_tile.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_encoders.cuh"

namespace fp4sim::gpu {

/// What the threads of a tile share.
struct ColumnBlocks {
  static constexpr int kWarps = kTileThreads / kWarp;
  static constexpr int kMostBlocks = kTileRows / 16;  // scale blocks of one column of a tile
  alignas(16) float maxima[kWarps][kTileCols];
  alignas(16) float factors[kMostBlocks][kTileCols];  // NaN for nonfinite blocks
};

/// Every thread's largest magnitudes by column; ends with a barrier.
__device__ inline void publish_maxima(const Four (&e)[kThreadRows], ColumnBlocks& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Four most = {};
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r)
#pragma unroll
    for (int k = 0; k < kVector; ++k) most.v[k] = larger_magnitude(most.v[k], e[r].v[k]);
  *reinterpret_cast<float4*>(&shared.maxima[warp][lane * kVector]) =
      make_float4(most.v[0], most.v[1], most.v[2], most.v[3]);
  __syncthreads();
}

/// The scales of the tile's blocks, each thread those of one column, and the factors of their elements. The caller's
/// next barrier makes the factors known to all.
template <bool two_level>
__device__ void make_column_scales(const ColumnTile& tile, const Layout& l, const ScaleMaker& maker,
                                   const TensorScales& t, ColumnBlocks& shared, uint8_t* scales) {
  const int block_rows = static_cast<int>(l.row_step), blocks = kTileRows / block_rows;
  const int warps_of_block = block_rows / kThreadRows, mine = static_cast<int>(threadIdx.x);
  for (int b = 0; b < blocks; ++b) {
    float amax = 0;
    for (int w = 0; w < warps_of_block; ++w) amax = larger_magnitude(amax, shared.maxima[b * warps_of_block + w][mine]);
    const BlockScale scale = maker.make<two_level>(magnitude_bits(amax), t);
    shared.factors[b][mine] = magnitude_bits(amax) < kF32Inf ? scale.factor : canonical_nan();
    const int64_t grid_row = tile.tile_row * blocks + b, col = tile.first_col + mine;
    if (grid_row < l.grid_rows && col < l.cols)
      scales[(tile.matrix * l.grid_rows + grid_row) * l.cols + col] = scale.code;
  }
}

/// The codes of a thread's elements; +0 in nonfinite blocks.
template <class Encoder>
__device__ void store_column_codes(const Four (&e)[kThreadRows], const ColumnTile& tile, const Layout& l,
                                   const ColumnBlocks& shared, const Encoder& encoder, uint8_t* codes) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int warps_of_block = static_cast<int>(l.row_step) / kThreadRows;
  const float* factor = &shared.factors[warp / warps_of_block][lane * kVector];
  const int bits = encoder.bits();
  uint32_t finite = 0;  // ones for the codes of finite blocks
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    if (factor[k] == factor[k]) finite |= ((1u << bits) - 1u) << (k * bits);
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if (r >= tile.rows) break;
    float y[kVector];
#pragma unroll
    for (int k = 0; k < kVector; ++k) y[k] = e[r].v[k] * factor[k];
    const int64_t i = element_of(tile, l, r);
    store_four_codes(codes, i / kVector, bits, encoder.four(y, i) & finite);
  }
}

}  // namespace fp4sim::gpu
