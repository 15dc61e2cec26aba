// 256 threads own a tile of 64×64 outputs, 4×4 each, 16 rows and columns apart. Each block of 32 k becomes int8 units
// in shared memory; its dots are integer dot instructions of 4 products.
#include "gpu/matmul_direct.h"

#include "gpu/arithmetic.cuh"
#include "gpu/product_launch.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kSide = 16;  // threads along each side
constexpr int kOwn = kTile / kSide;
constexpr int kBlock = 1 << kBlockShift;
constexpr int kWords = kBlock / 4;

/// An operand and what its codes and scales are found with.
struct DirectSide {
  NarrowOperand from;
  Bytes16 units;
  ScalePlaces places;
};

/// One block of 32 k of the rows of a tile.
struct DirectBlock {
  uint32_t units[kTile][kWords + 1];
  float scales[kTile];

  /// Eight codes a thread, the threads of the whole block.
  __device__ void load(const DirectSide& side, int64_t matrix, int64_t first_row, int64_t first_k) {
    const NarrowOperand& o = side.from;
    const int thread = static_cast<int>(threadIdx.x);
    uint32_t bytes[2];
    if (o.last) {
      const int r = thread / 4, first = thread % 4 * 8;
      uint32_t codes = 0;
      if (first_row + r < o.rows && first_k + first < o.k)
        codes = load_codes(o.view.row(matrix * o.rows + first_row + r) + (first_k + first) / 2, o.k - first_k - first,
                           false);
      bytes_of(codes, side.units, bytes);
      units[r][first / 4] = bytes[0], units[r][first / 4 + 1] = bytes[1];
    } else {
      const int first = thread % 8 * 8, i = thread / 8;
      uint32_t codes = 0;
      if (first_row + first < o.rows && first_k + i < o.k)
        codes = load_codes(o.view.row(matrix * o.k + first_k + i) + (first_row + first) / 2, o.rows - first_row - first,
                           false);
      bytes_of(codes, side.units, bytes);
      for (int r = 0; r < 8; ++r)
        reinterpret_cast<uint8_t*>(units[first + r])[i] = static_cast<uint8_t>(bytes[r / 4] >> (8 * (r % 4)));
    }
    if (thread < kTile) {
      const int64_t row = first_row + thread;
      scales[thread] =
          row < o.rows
              ? o.view.scale_at(side.places.of_row(matrix, row) + (first_k >> kBlockShift) * side.places.block_step)
              : 0.0f;
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    direct_kernel(const __grid_constant__ DirectSide a, const __grid_constant__ DirectSide b,
                  const __grid_constant__ TileGrid grid, const __grid_constant__ Epilogue epilogue, UnfitFlags flags,
                  float unit) {
  __shared__ DirectBlock block_a, block_b;
  if (!flags.any()) return;
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
  for (int64_t item = blockIdx.x; item < grid.tiles(); item += gridDim.x) {
    const Tile tile = tile_at(grid, item, kTile, kTile);
    for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
      float acc[kOwn][kOwn] = {};
      const int64_t end = least((panel + 1) * kPanel, grid.k);
      for (int64_t k = panel * kPanel; k < end; k += kBlock) {
        __syncthreads();
        block_a.load(a, tile.matrix, tile.first_row, k);
        block_b.load(b, tile.matrix, tile.first_col, k);
        __syncthreads();
        int dot[kOwn][kOwn] = {};
#pragma unroll
        for (int word = 0; word < kWords; ++word)
#pragma unroll
          for (int i = 0; i < kOwn; ++i)
#pragma unroll
            for (int j = 0; j < kOwn; ++j)
              dot[i][j] = __dp4a(static_cast<int>(block_a.units[y + kSide * i][word]),
                                 static_cast<int>(block_b.units[x + kSide * j][word]), dot[i][j]);
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            acc[i][j] = fma32(static_cast<float>(dot[i][j]) * unit,
                              block_a.scales[y + kSide * i] * block_b.scales[x + kSide * j], acc[i][j]);
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j)
          store_panel(grid, epilogue, panel, tile.matrix, tile.first_row + y + kSide * i,
                      tile.first_col + x + kSide * j, acc[i][j]);
    }
  }
}

}  // namespace

void matmul_direct(const NarrowOperand& a, const NarrowOperand& b, const UnfitFlags& flags, int exponent,
                   const Epilogue& epilogue, float* y, Context& context) {
  constexpr int kBlocksOfMultiprocessor = 4;
  const DirectSide side_a{a, units_of(a.view.quantizer.element), scale_places(a, kBlockShift)};
  const DirectSide side_b{b, units_of(b.view.quantizer.element), scale_places(b, kBlockShift)};
  const TileGrid grid{
      a.matrices, a.rows, b.rows, a.k, ceil_div(a.rows, kTile), ceil_div(b.rows, kTile), ceil_div(a.k, kPanel),
      false,      y,      nullptr};
  const int64_t blocks = std::min<int64_t>(grid.tiles(), kBlocksOfMultiprocessor * context.multiprocessors());
  context.launch(direct_kernel, Context::per_block(blocks, kThreads), side_a, side_b, grid, epilogue, flags,
                 pow2_f32(exponent));
}

}  // namespace fp4sim::gpu
