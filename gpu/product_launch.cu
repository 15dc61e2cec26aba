#include "gpu/product_launch.h"

#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

__global__ void add_panels(TileGrid g, Epilogue epilogue) {
  const int64_t at = thread_number(), count = g.matrices * g.m * g.n;
  if (at >= count) return;
  float sum = g.partial[at];
  for (int64_t panel = 1; panel < g.panels; ++panel) sum = sum + g.partial[panel * count + at];
  const int64_t row = quotient(at, g.n), matrix = quotient(row, g.m);
  g.y[at] = epilogue(sum, matrix, row - matrix * g.m, at - row * g.n);
}

}  // namespace

TileGrid tile_grid(int64_t matrices, int64_t m, int64_t n, int64_t k, int tile_m, int tile_n, float* y,
                   Context& context) {
  TileGrid g{matrices, m, n, k, ceil_div(m, tile_m), ceil_div(n, tile_n), ceil_div(k, kPanel), false, y, nullptr};
  const int64_t whole = g.tiles();
  g.split = g.panels > 1 && whole < context.multiprocessors();
  if (g.split) g.partial = context.scratch<float>(g.panels * matrices * m * n);
  return g;
}

void sum_panels(const TileGrid& grid, const Epilogue& epilogue, Context& context) {
  if (grid.split) context.launch(add_panels, context.per_item(grid.matrices * grid.m * grid.n), grid, epilogue);
}

}  // namespace fp4sim::gpu
