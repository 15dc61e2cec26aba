#include "gpu/product_launch.h"

#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

/// Adds the parts of `width` neighbouring outputs of a row in ascending order.
template <int width>
__device__ void add_parts(const TileGrid& g, const Epilogue& epilogue, int64_t matrix, int64_t row, int64_t col,
                          bool scaled) {
  const int64_t count = g.matrices * g.m * g.n, at = (matrix * g.m + row) * g.n + col, parts = g.parts();
  float sum[width];
#pragma unroll 4
  for (int64_t part = 0; part < parts; ++part) {
    const float* from = g.partial + part * count + at;
    float v[width];
    if constexpr (width == 4) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
      v[0] = *from;
    }
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = part == 0 ? v[i] : sum[i] + v[i];
  }
#pragma unroll
  for (int i = 0; i < width; ++i) sum[i] = epilogue(sum[i], matrix, row, col + i, scaled);
  float* y = epilogue.matrix_of(g.y, matrix, g.m, g.n) + epilogue.places.of_row(row, g.n) + epilogue.places.of_col(col);
  if constexpr (width == 4) {
    *reinterpret_cast<float4*>(y) = make_float4(sum[0], sum[1], sum[2], sum[3]);
  } else {
    *y = sum[0];
  }
}

template <int width>
__global__ void add_panels(const __grid_constant__ CertifiedSums s, const __grid_constant__ Epilogue epilogue) {
  const bool unfit = s.unfit.any();
  const int64_t at = thread_number() * width;
  const TileGrid& shape = s.panels;
  if (at >= shape.matrices * shape.m * shape.n) return;
  const int64_t outer = quotient(at, shape.n), matrix = quotient(outer, shape.m);
  const int64_t row = outer - matrix * shape.m, col = at - outer * shape.n;
  const TileGrid* grid = &s.panels;
  if (s.map != nullptr) {
    const int64_t band = matrix * s.rows.bands + s.rows.band_of(row);
    if (s.map[band * s.cols.bands + s.cols.band_of(col)] != 0) grid = &s.certified;
  }
  if (grid->split) add_parts<width>(*grid, epilogue, matrix, row, col, grid == &s.certified || !unfit);
}

}  // namespace

void choose_bands(RowNorms& n, int64_t blocks, int64_t most) {
  while (n.matrices * ceil_div(n.row_blocks, blocks) > most) blocks *= 2;
  n.band_blocks = static_cast<uint32_t>(blocks);
  n.bands = static_cast<uint32_t>(ceil_div(n.row_blocks, blocks));
}

TileGrid tile_grid(int64_t matrices, int64_t m, int64_t n, int64_t k, int tile_m, int tile_n, float* y,
                   Context& context) {
  TileGrid g{matrices, m, n, k, ceil_div(m, tile_m), ceil_div(n, tile_n), ceil_div(k, kPanel), false, y, nullptr};
  const int64_t whole = g.tiles();
  g.split = g.panels > 1 && whole < context.multiprocessors();
  if (g.split) g.partial = context.scratch<float>(g.panels * matrices * m * n);
  return g;
}

void sum_certified(const CertifiedSums& sums, const Epilogue& epilogue, Context& context) {
  const TileGrid& g = sums.panels;
  if (!g.split && !sums.certified.split) return;
  const int64_t count = g.matrices * g.m * g.n;
  if (g.n % 4 == 0) return context.launch(add_panels<4>, context.per_item(count / 4), sums, epilogue);
  context.launch(add_panels<1>, context.per_item(count), sums, epilogue);
}

void sum_panels(const TileGrid& grid, const Epilogue& epilogue, Context& context) {
  sum_certified({grid, {}, nullptr, {}, {}, {}}, epilogue, context);
}

}  // namespace fp4sim::gpu
