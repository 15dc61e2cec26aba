// Which tiles a product gets, and the launches. Compiled for compute capability 9.0a alone.
#include "gpu/matmul_wgmma.h"

#include "gpu/matmul_wgmma.cuh"
#include "gpu/product_launch.h"

namespace fp4sim::gpu {
namespace {

template <class Plan>
void launch_product(const WidePair& pair, const TileGrid& grid, const Epilogue& epilogue, float unit,
                    const UnfitFlags& unfit, Context& context) {
  const auto kernel = product_kernel<Plan>;
  FP4SIM_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plan::kSharedBytes));
  const int64_t clusters = std::min<int64_t>(grid.tiles(), context.multiprocessors() / Plan::kCluster);
  context.launch(kernel, Context::per_block(clusters * Plan::kCluster, Plan::kThreads, Plan::kSharedBytes), pair.a,
                 pair.b, grid, epilogue, unit, unfit);
}

/// The whole k of each tile in one block of threads.
template <class Plan>
TileGrid whole_tiles(const ProductShape& s, float* y) {
  return {s.matrices,
          s.m,
          s.n,
          s.k,
          ceil_div(s.m, Plan::kRows * Plan::kCluster),
          ceil_div(s.n, Plan::kCols),
          ceil_div(s.k, kPanel),
          false,
          y,
          nullptr};
}

}  // namespace

bool has_warpgroup_products() {
  int device = 0, major = 0, minor = 0;
  FP4SIM_CUDA_CALL(cudaGetDevice(&device));
  FP4SIM_CUDA_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  FP4SIM_CUDA_CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}

void multiply_units(const WidePair& pair, const ProductShape& shape, int exponent, const Epilogue& epilogue, float* y,
                    Context& context) {
  using Wide = ProductPlan<Int8Rule, 2, 256, 2>;
  using Narrow = ProductPlan<Int8Rule, 2, 128, 1>;
  const TileGrid wide = whole_tiles<Wide>(shape, y);
  const float unit = pow2_f32(exponent);
  if (shape.n >= 1024 && wide.tiles() >= context.multiprocessors())
    return launch_product<Wide>(pair, wide, epilogue, unit, {}, context);
  launch_product<Narrow>(pair, whole_tiles<Narrow>(shape, y), epilogue, unit, {}, context);
}

void multiply_folded(const FoldedPair& pair, const ProductShape& shape, const Epilogue& epilogue, float* y,
                     Context& context) {
  using Plan = ProductPlan<FoldedRule, 3, 128, 1>;
  Epilogue finish = epilogue;
  finish.scales_a = pair.factors_a;
  finish.scales_b = pair.factors_b;
  const TileGrid grid = tile_grid(shape.matrices, shape.m, shape.n, shape.k, Plan::kRows, Plan::kCols, y, context);
  launch_product<Plan>(pair.bytes, grid, finish, 1.0f, pair.unfit, context);
  sum_panels(grid, finish, context);
}

}  // namespace fp4sim::gpu
