// Which tiles a product gets, and the launches. Compiled for compute capability 9.0a alone.
#include "gpu/matmul_wgmma.h"

#include "gpu/matmul_wgmma.cuh"
#include "gpu/product_launch.h"

namespace fp4sim::gpu {
namespace {

using WideUnits = ProductPlan<Int8Rule, 2, 256, kPair>;
using MiddleUnits = ProductPlan<Int8Rule, 2, 192, 1>;
using NarrowUnits = ProductPlan<Int8Rule, 2, 128, 1>;
using Folded = ProductPlan<FoldedRule, 3, 128, 1>;

/// What the tiles of one product are computed from and with.
struct Launch {
  WidePair pair;
  Epilogue epilogue;
  float unit = 1.0f;  // of integers
  UnfitFlags unfit = {};
  LateRows late = {};
  Certificates certificates = {{}, {}, Tiles::all};
  uint8_t* map = nullptr;
  DirectProduct direct = {};  // of what is unfit
};

template <class Plan>
void launch_product(const Launch& l, const TileGrid& grid, Context& context) {
  const auto kernel = product_kernel<Plan>;
  FP4SIM_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plan::kSharedBytes));
  const int64_t clusters = std::min<int64_t>(grid.tiles(), context.multiprocessors() / Plan::kCluster);
  const Grid blocks = Context::per_block(clusters * Plan::kCluster, Plan::kThreads, Plan::kSharedBytes);
  const auto launch = [&](const auto& other_way) {
    context.launch(kernel, blocks, l.pair, grid, l.epilogue, l.unit, l.unfit, l.late, l.certificates, l.map, other_way);
  };
  if constexpr (std::is_same_v<typename Plan::Rule::OtherWay, DirectProduct>) {
    launch(l.direct);
  } else {
    launch(NoOtherWay{});
  }
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

/// How a product of integers is cut.
enum class UnitTiles { wide, middle, narrow };
struct UnitGrid {
  UnitTiles tiles;
  TileGrid grid;
};

/// Cuts the panels of tiles that would leave multiprocessors without work into the parts of the shortest time.
void split_panels(TileGrid& grid, int64_t processors, Context& context) {
  if (grid.tiles() >= processors || grid.panels == 1) return;
  constexpr double kFinish = 0.5;  // the time of a tile's outputs, in panels
  double least_time = 0;
  const int64_t tiles = grid.tiles();
  for (int64_t length = grid.panels; length > 0; --length) {
    const int64_t rounds = ceil_div(tiles * ceil_div(grid.panels, length), processors);
    const double time = static_cast<double>(rounds) * (static_cast<double>(length) + kFinish);
    if (length < grid.panels && time >= least_time) continue;
    least_time = time, grid.part_panels = length;
  }
  grid.split = grid.part_panels < grid.panels;
  if (grid.split) grid.partial = context.scratch<float>(grid.parts() * grid.matrices * grid.m * grid.n);
}

/// The tiles of certified sums, or of the vector rule. `exact`: every sum is below 2^24, so binary32 holds those of
/// parts of k.
UnitGrid unit_grid(const ProductShape& shape, bool exact, float* y, Context& context) {
  const int64_t processors = context.multiprocessors();
  if (is_small(shape)) {
    UnitGrid u{UnitTiles::middle, whole_tiles<MiddleUnits>(shape, y)};
    if (exact) split_panels(u.grid, processors, context);
    return u;
  }
  UnitGrid u{UnitTiles::wide, whole_tiles<WideUnits>(shape, y)};
  if (shape.n >= 1024 && u.grid.tiles() >= processors) return u;
  u = {UnitTiles::narrow, whole_tiles<NarrowUnits>(shape, y)};
  if (exact) split_panels(u.grid, processors, context);
  return u;
}

/// Rows and columns of a cluster's tile. Bands are cut like it: where one is not certified the other kernel's tiles,
/// which may reach over several bands, cover it.
struct TileSize {
  int64_t rows, cols;
};
template <class Plan>
constexpr TileSize kTileSize = {Plan::kRows* Plan::kCluster, Plan::kCols};
TileSize tile_of(UnitTiles tiles) {
  if (tiles == UnitTiles::wide) return kTileSize<WideUnits>;
  return tiles == UnitTiles::middle ? kTileSize<MiddleUnits> : kTileSize<NarrowUnits>;
}

void launch_units(const Launch& l, const UnitGrid& u, Context& context) {
  if (u.tiles == UnitTiles::wide) return launch_product<WideUnits>(l, u.grid, context);
  if (u.tiles == UnitTiles::middle) return launch_product<MiddleUnits>(l, u.grid, context);
  launch_product<NarrowUnits>(l, u.grid, context);
}

template <class Plan>
TileGrid panel_grid(const ProductShape& s, float* y, Context& context) {
  return tile_grid(s.matrices, s.m, s.n, s.k, Plan::kRows, Plan::kCols, y, context);
}

}  // namespace

bool is_small(const ProductShape& s) {
  constexpr int64_t kProducts = int64_t{1} << 35, kLongest = int64_t{1} << 15;
  return s.k <= kLongest && s.matrices * s.m * s.n <= kProducts / s.k;
}

bool has_warpgroup_products() {
  int device = 0, major = 0, minor = 0;
  FP4SIM_CUDA_CALL(cudaGetDevice(&device));
  FP4SIM_CUDA_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  FP4SIM_CUDA_CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}

void multiply_units(const WidePair& pair, const ProductShape& shape, int bits, int exponent, const Epilogue& epilogue,
                    float* y, Context& context) {
  constexpr int kExactBits = 24;
  const bool exact = bits < kExactBits && shape.k <= int64_t{1} << (kExactBits - bits);
  const UnitGrid u = unit_grid(shape, exact, y, context);
  Launch l{pair, epilogue};
  l.unit = pow2_f32(exponent);
  launch_units(l, u, context);
  sum_panels(u.grid, epilogue, context);
}

namespace {

/// Certified tiles by one kernel, then the others, if there are any, by another.
void multiply_in_turn(Launch& l, const FoldedPair& pair, const ProductShape& shape, float* y, Context& context) {
  const TileGrid grid = panel_grid<Folded>(shape, y, context);
  const UnitGrid u = unit_grid(shape, true, y, context);
  const auto [rows, cols] = tile_of(u.tiles);
  Certificates& c = l.certificates;
  choose_bands(c.a, rows / kNormRows, kMostBands);
  choose_bands(c.b, cols / kNormRows, kMostBands);
  if (u.grid.split || grid.split) l.map = context.scratch<uint8_t>(shape.matrices * c.a.bands * c.b.bands);
  const CertifiedSums sums{grid, u.grid, l.map, c.a, c.b, pair.unfit};
  launch_units(l, u, context);
  fold_units(pair, c, context);
  c.which = Tiles::others, l.map = nullptr, l.unfit = pair.unfit;
  launch_product<Folded>(l, grid, context);
  sum_certified(sums, l.epilogue, context);
}

}  // namespace

void multiply_folded(const FoldedPair& pair, const DirectProduct& direct, const ProductShape& shape,
                     const Epilogue& epilogue, float* y, Context& context) {
  constexpr float kUnit = 0.25f;  // of the products of halves
  Launch l{pair.wide, epilogue, kUnit};
  l.epilogue.scales_a = pair.factors_a;
  l.epilogue.scales_b = pair.factors_b;
  l.certificates = pair.certificates;
  l.direct = direct;
  if (l.certificates.which != Tiles::all) return multiply_in_turn(l, pair, shape, y, context);
  l.unfit = pair.unfit, l.late = pair.late;
  const TileGrid grid = panel_grid<Folded>(shape, y, context);
  launch_product<Folded>(l, grid, context);
  sum_certified({grid, {}, nullptr, {}, {}, pair.unfit}, l.epilogue, context);
}

}  // namespace fp4sim::gpu
