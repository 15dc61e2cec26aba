#include "gpu/transpose.h"

#include "gpu/bits.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // rows of threads; each takes kTile / kTileRows rows of the tile

__global__ void transpose_tiles(const float* in, int64_t rows, int64_t cols, float* out) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t tiles = (cols + kTile - 1) / kTile, tile_rows = (rows + kTile - 1) / kTile;
  const int64_t outer = quotient(blockIdx.x, tiles), matrix = quotient(outer, tile_rows);
  const int64_t first_row = (outer - matrix * tile_rows) * kTile, first_col = (blockIdx.x - outer * tiles) * kTile;
  in += matrix * rows * cols;
  out += matrix * rows * cols;
  const int x = static_cast<int>(threadIdx.x % kTile), y = static_cast<int>(threadIdx.x / kTile);
  for (int r = y; r < kTile; r += kTileRows)
    if (first_row + r < rows && first_col + x < cols) tile[r][x] = in[(first_row + r) * cols + first_col + x];
  __syncthreads();
  for (int c = y; c < kTile; c += kTileRows)
    if (first_col + c < cols && first_row + x < rows) out[(first_col + c) * rows + first_row + x] = tile[x][c];
}

}  // namespace

void transpose(const float* in, int64_t matrices, int64_t rows, int64_t cols, float* out, Context& context) {
  const int64_t tiles = matrices * ceil_div(rows, kTile) * ceil_div(cols, kTile);
  context.launch(transpose_tiles, Context::per_block(tiles, kTile * kTileRows), in, rows, cols, out);
}

}  // namespace fp4sim::gpu
