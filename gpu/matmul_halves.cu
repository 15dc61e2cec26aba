// Which turns a product gets, and the launches. Compiled for compute capability 9.0a alone.
#include "gpu/matmul_halves.h"

#include "gpu/matmul_halves.cuh"
#include "gpu/product_launch.h"

namespace fp4sim::gpu {
namespace {

using Observed = ProductPlan<ObservedRule, 3, 128, 1, false>;
using Blocks = ProductPlan<HalvesRule, 3, 128, 1>;
static_assert(Observed::kRows == Blocks::kRows && Observed::kCols == Blocks::kCols);  // they share a grid

template <class Plan, class... Params, class... Args>
void launch_tiles(void (*kernel)(Params...), const TileGrid& grid, Context& context, const Args&... args) {
  FP4SIM_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plan::kSharedBytes));
  const int64_t blocks = std::min<int64_t>(grid.tiles(), context.multiprocessors());
  context.launch(kernel, Context::per_block(blocks, Plan::kThreads, Plan::kSharedBytes), args...);
}

/// True where a block of threads multiplies a panel or more: the second launch then costs less than the blocks' adds.
bool worth_observing(const TileGrid& grid, Context& context) {
  const int64_t rounds = ceil_div(grid.tiles(), context.multiprocessors());
  return context.certifies_small() || rounds * std::min(grid.k, grid.split ? kPanel : grid.k) >= kPanel;
}

}  // namespace

void multiply_halves(const HalvesPair& pair, const ProductShape& shape, const Epilogue& epilogue, float* y,
                     Context& context) {
  const TileGrid grid = tile_grid(shape.matrices, shape.m, shape.n, shape.k, Blocks::kRows, Blocks::kCols, y, context);
  TileMarks marks{nullptr, grid.matrices, grid.tiles_m, grid.tiles_n};
  ValueBounds a = pair.a, b = pair.b;
  const bool fits = std::max(a.norms.matrices, b.norms.matrices) <= SumLimits::kBands;
  if (fits && worth_observing(grid, context)) {
    choose_bands(a.norms, 1, SumLimits::kBands);
    choose_bands(b.norms, 1, SumLimits::kBands);
    marks.data = context.scratch<uint8_t>(grid.tiles());
    launch_tiles<Observed>(observe_product<Observed>, grid, context, pair.wide, grid, epilogue, a, b, marks);
  }
  launch_tiles<Blocks>(multiply_marked<Blocks>, grid, context, pair.wide, grid, epilogue, marks);
  sum_panels(grid, epilogue, context);
}

}  // namespace fp4sim::gpu
