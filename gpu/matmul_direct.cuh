// The block rule for e2m1 with e8m0 scales of blocks of 32, straight from the packed operands: the way for the few
// products whose scales do not fit into the operands of a faster kernel, inside of that kernel. 256 threads of the
// block own a tile of 64×64 outputs, 4×4 each, 16 rows and columns apart. Each block of 32 k becomes int8 units in
// shared memory; its dots are integer dot instructions of 4 products.
#pragma once

#include <span>

#include "gpu/arithmetic.cuh"
#include "gpu/certificate.cuh"
#include "gpu/nibbles.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// A packed operand, and what its codes and scales are found with.
struct DirectSide {
  const uint8_t *codes, *scales;
  int64_t row_bytes, rows, k;
  ScalePlaces places;
  bool last;
};

/// The operands of one product, or those of a group, of which one may serve all.
struct DirectProduct {
  DirectSide a[kMostGrouped], b[kMostGrouped];
  int count_a, count_b;
  bool grouped;
  Bytes16 units;
};

/// Host only.
inline DirectProduct direct_product(std::span<const NarrowOperand> a, std::span<const NarrowOperand> b) {
  DirectProduct p{};
  const auto put = [](std::span<const NarrowOperand> from, DirectSide* to) {
    for (const NarrowOperand& o : from)
      *to++ = {o.view.codes,
               static_cast<const uint8_t*>(o.view.scales),
               o.view.layout.row_bytes,
               o.rows,
               o.k,
               scale_places(o, kBlockShift),
               o.last};
    return static_cast<int>(from.size());
  };
  p.count_a = put(a, p.a);
  p.count_b = put(b, p.b);
  p.grouped = a.size() > 1 || b.size() > 1;
  p.units = units_of(a[0].view.quantizer.element);
  return p;
}

constexpr int kDirectThreads = 256;
constexpr int kDirectTile = 64;
constexpr int kDirectSide = 16;  // threads along each side
constexpr int kDirectOwn = kDirectTile / kDirectSide;
constexpr int kDirectBlock = 1 << kBlockShift;
constexpr int kDirectWords = kDirectBlock / 4;

/// One block of 32 k of the rows of a tile.
struct DirectBlock {
  uint32_t units[kDirectTile][kDirectWords + 1];
  float scales[kDirectTile];

  /// Eight codes a thread, of kDirectThreads.
  __device__ void load(const DirectSide& o, const Bytes16& table, int64_t matrix, int64_t first_row, int64_t first_k) {
    const int thread = static_cast<int>(threadIdx.x);
    uint32_t bytes[2];
    if (o.last) {
      const int r = thread / 4, first = thread % 4 * 8;
      uint32_t codes = 0;
      if (first_row + r < o.rows && first_k + first < o.k)
        codes = load_codes(o.codes + (matrix * o.rows + first_row + r) * o.row_bytes + (first_k + first) / 2,
                           o.k - first_k - first, false);
      bytes_of(codes, table, bytes);
      units[r][first / 4] = bytes[0], units[r][first / 4 + 1] = bytes[1];
    } else {
      const int first = thread % 8 * 8, i = thread / 8;
      uint32_t codes = 0;
      if (first_row + first < o.rows && first_k + i < o.k)
        codes = load_codes(o.codes + (matrix * o.k + first_k + i) * o.row_bytes + (first_row + first) / 2,
                           o.rows - first_row - first, false);
      bytes_of(codes, table, bytes);
      for (int r = 0; r < 8; ++r)
        reinterpret_cast<uint8_t*>(units[first + r])[i] = static_cast<uint8_t>(bytes[r / 4] >> (8 * (r % 4)));
    }
    if (thread < kDirectTile) {
      const int64_t row = first_row + thread, block = first_k >> kBlockShift;
      scales[thread] =
          row < o.rows ? scale(o.scales[o.places.of_row(matrix, row) + block * o.places.block_step]) : 0.0f;
    }
  }

 private:
  __device__ static float scale(uint8_t code) {
    return code == kE8m0NaN ? canonical_nan() : pow2_f32(code - kE8m0Bias);
  }
};

/// Computes the tiles of a product that the filter takes; `grid` and `epilogue`, without its scales, are those of the
/// faster kernel. A unit of the dots is `unit`. The whole block calls; `shared`: 32 KiB.
__device__ inline void multiply_direct(const DirectProduct& p, TileGrid grid, const Epilogue& epilogue, float unit,
                                       const TileFilter& filter, uint8_t* shared) {
  DirectBlock& block_a = *reinterpret_cast<DirectBlock*>(shared);
  DirectBlock& block_b = *reinterpret_cast<DirectBlock*>(shared + sizeof(DirectBlock));
  float* sums =
      reinterpret_cast<float*>(shared + 2 * sizeof(DirectBlock));  // [thread][output]: one by one, little code
  grid.tiles_m = (grid.m + kDirectTile - 1) / kDirectTile, grid.tiles_n = (grid.n + kDirectTile - 1) / kDirectTile;
  const bool works = threadIdx.x < kDirectThreads;
  const int y = static_cast<int>(threadIdx.x) % kDirectThreads / kDirectSide;
  const int x = static_cast<int>(threadIdx.x) % kDirectSide;
#pragma unroll 1
  for (int64_t item = blockIdx.x; item < grid.tiles(); item += gridDim.x) {
    const Tile tile = tile_at(grid, item, kDirectTile, kDirectTile);
    if (!filter.takes(tile, kDirectTile, kDirectTile)) continue;
    const DirectSide& side_a = p.a[p.count_a > 1 ? tile.matrix : 0];
    const DirectSide& side_b = p.b[p.count_b > 1 ? tile.matrix : 0];
    const int64_t matrix = p.grouped ? 0 : tile.matrix;
#pragma unroll 1
    for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
      float acc[kDirectOwn][kDirectOwn] = {};
      const int64_t end = least((panel + 1) * kPanel, grid.k);
#pragma unroll 1
      for (int64_t k = panel * kPanel; k < end; k += kDirectBlock) {
        __syncthreads();
        if (works) {
          block_a.load(side_a, p.units, matrix, tile.first_row, k);
          block_b.load(side_b, p.units, matrix, tile.first_col, k);
        }
        __syncthreads();
        int dot[kDirectOwn][kDirectOwn] = {};
#pragma unroll
        for (int word = 0; word < kDirectWords; ++word)
#pragma unroll
          for (int i = 0; i < kDirectOwn; ++i)
#pragma unroll
            for (int j = 0; j < kDirectOwn; ++j)
              dot[i][j] = __dp4a(static_cast<int>(block_a.units[y + kDirectSide * i][word]),
                                 static_cast<int>(block_b.units[x + kDirectSide * j][word]), dot[i][j]);
#pragma unroll
        for (int i = 0; i < kDirectOwn; ++i)
#pragma unroll
          for (int j = 0; j < kDirectOwn; ++j)
            acc[i][j] = fma32(static_cast<float>(dot[i][j]) * unit,
                              block_a.scales[y + kDirectSide * i] * block_b.scales[x + kDirectSide * j], acc[i][j]);
      }
      if (!works) continue;
      float* own = sums + threadIdx.x * kDirectOwn * kDirectOwn;
#pragma unroll
      for (int i = 0; i < kDirectOwn * kDirectOwn; ++i) own[i] = acc[i / kDirectOwn][i % kDirectOwn];
#pragma unroll 1
      for (int i = 0; i < kDirectOwn * kDirectOwn; ++i)
        store_panel(grid, epilogue, panel, tile.matrix, tile.first_row + y + kDirectSide * (i / kDirectOwn),
                    tile.first_col + x + kDirectSide * (i % kDirectOwn), own[i], false);
    }
  }
}

}  // namespace fp4sim::gpu
