// Two warpgroups own 64×128 outputs each, the block below in the cluster as many; to the ring of slices the terms are
// one long k. A term's sum of int8 products is held in 32 bits and goes, times its weight, to a total modulo 2^64. The
// dot itself is below 2^53 units, so whatever order and parts the terms are added in, the total is the dot.
// Compiled for compute capability 9.0a alone.
#include "gpu/matmul_digits.h"

#include "gpu/matmul_wgmma.cuh"

namespace fp4sim::gpu {
namespace {

/// Digits are int8; a slice is 128 k of one term.
using Plan = ProductPlan<Int8Rule, 2, 128, kPair>;

constexpr int64_t kMostSlices = 64;  // of one sum in 32 bits: bytes are at most 128, so 2^16 products stay below 2^31
static_assert(kMostSlices * kSliceBytes <= int64_t{1} << 16);

/// The terms, and where the totals of parts of a split grid go: [part][matrix][row][pitch].
struct DigitSums {
  DigitTerms terms;
  int64_t k_slices;  // of one term
  float unit;
  uint64_t* partial;
  int64_t pitch;

  __device__ uint64_t* row(const TileGrid& g, int64_t part, int64_t matrix, int64_t row) const {
    return partial + ((part * g.matrices + matrix) * g.m + row) * pitch;
  }
  /// The dot, rounded once: binary32 has its unit's multiples without underflow.
  __device__ float rounded(uint64_t total) const { return static_cast<float>(static_cast<int64_t>(total)) * unit; }
};

/// Stores the totals of a part: columns 8j + 2t and 8j + 2t + 1 of two rows.
__device__ void store_totals(const uint64_t (&total)[Plan::kOwn], const DigitSums& sums, const TileGrid& grid,
                             const Tile& tile, const LanePlace& lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t row = lane.row + 8 * h;
    if (row >= grid.m) return;
    uint64_t* to = sums.row(grid, tile.part, tile.matrix, row) + lane.col;
#pragma unroll
    for (int j = 0; j < Plan::kCols / 8; ++j)
      if (lane.col + 8 * j < grid.n)
        *reinterpret_cast<ulonglong2*>(to + 8 * j) = {total[4 * j + 2 * h], total[4 * j + 2 * h + 1]};
  }
}

/// All slices of a tile.
__device__ void multiply_terms(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const DigitSums& sums,
                               const TileGrid& grid, const Tile& tile, int64_t slices, int group,
                               uint64_t (&total)[Plan::kOwn]) {
#pragma unroll
  for (uint64_t& t : total) t = 0;
  int sum[Plan::kOwn];
  const int64_t end = least(tile.last_panel * kSlicesOfPanel<Plan>, slices);
  int64_t slice = tile.first_panel * kSlicesOfPanel<Plan>;
#pragma unroll 1
  while (slice < end) {
    const int64_t term = quotient(slice, sums.k_slices);
    const int64_t stop = least(least((term + 1) * sums.k_slices, slice + kMostSlices), end);
    const int32_t weight = sums.terms.term[term].weight;
    sum_slices(memory, turn, group, stop - slice, sum);
    slice = stop;
#pragma unroll
    for (int i = 0; i < Plan::kOwn; ++i) total[i] += static_cast<uint64_t>(static_cast<int64_t>(weight) * sum[i]);
  }
}

__global__ void __cluster_dims__(Plan::kCluster, 1, 1) __launch_bounds__(Plan::kThreads, 1)
    digit_product_kernel(const __grid_constant__ WidePair pair, const __grid_constant__ TileGrid grid,
                         const __grid_constant__ DigitSums sums, const __grid_constant__ Epilogue epilogue) {
  const ProductMemory<Plan> memory(dynamic_shared());
  const TileFilter filter({{}, {}, Tiles::all}, memory.bands);
  run_tiles(memory, pair, grid, filter, [&](Turn<Plan>& turn, const Tile& tile, int group, uint32_t rank) {
    uint64_t total[Plan::kOwn];
    multiply_terms(memory, turn, sums, grid, tile, pair.a.slices, group, total);
    const LanePlace lane = LanePlace::of<Plan>(grid, epilogue, tile, tile.first_row + rank * Plan::kRows + group * 64);
    if (grid.split) return store_totals(total, sums, grid, tile, lane);
    const ColumnFactors<Plan> columns(grid, epilogue, tile);
    free_staging<Plan>(group);
    finish_tile<Plan>({grid, epilogue, tile, lane, columns, 0, group, memory.own(group)},
                      [&](int i) { return sums.rounded(total[i]); });
  });
}

constexpr int kWidth = 4;  // neighbouring outputs of a thread; the pitch of partial totals is a multiple of it

/// Adds the totals of the parts and finishes the product.
__global__ void add_totals(const __grid_constant__ TileGrid grid, const __grid_constant__ DigitSums sums,
                           const __grid_constant__ Epilogue epilogue) {
  const int64_t item = thread_number(), groups = sums.pitch / kWidth;
  const int64_t outer = quotient(item, groups), matrix = quotient(outer, grid.m), row = outer - matrix * grid.m;
  if (matrix >= grid.matrices) return;
  const int64_t first = (item - outer * groups) * kWidth;
  uint64_t total[kWidth] = {};
#pragma unroll 4
  for (int64_t part = 0; part < grid.parts(); ++part) {
    const uint64_t* from = sums.row(grid, part, matrix, row) + first;
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      const ulonglong2 two = __ldcg(reinterpret_cast<const ulonglong2*>(from + i));
      total[i] += two.x, total[i + 1] += two.y;
    }
  }
  float v[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    v[i] = first + i < grid.n ? epilogue(sums.rounded(total[i]), matrix, row, first + i) : 0.0f;
  float* y = epilogue.matrix_of(grid.y, matrix, grid.m, grid.n) + epilogue.places.of_row(row, grid.n) +
             epilogue.places.of_col(first);
  if (grid.n % kWidth == 0) {
    *reinterpret_cast<float4*>(y) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    for (int i = 0; i < kWidth && first + i < grid.n; ++i) y[i] = v[i];
  }
}

/// Splits the slices of all terms into the parts of the shortest time, in panels of a tile.
void choose_parts(TileGrid& grid, int64_t clusters) {
  constexpr double kFinish = 2.0, kAdd = 0.05;  // writing the totals of a part, and reading them again
  constexpr int64_t kMostRounds = 4;            // with more of them the clusters are busy anyway
  const int64_t tiles = grid.tiles();
  if (tiles >= kMostRounds * clusters) return;
  grid.part_panels = grid.panels;
  auto least_time = static_cast<double>(ceil_div(tiles, clusters) * grid.panels);
  for (int64_t parts = 2; parts <= grid.panels; ++parts) {
    const int64_t length = ceil_div(grid.panels, parts), items = tiles * ceil_div(grid.panels, length);
    const double time = static_cast<double>(ceil_div(items, clusters)) * (static_cast<double>(length) + kFinish) +
                        kAdd * static_cast<double>(items);
    if (time < least_time) least_time = time, grid.part_panels = length, grid.split = true;
  }
}

}  // namespace

void multiply_digits(const DigitPair& pair, const ProductShape& shape, int exponent, const Epilogue& epilogue, float* y,
                     Context& context) {
  FP4SIM_CUDA_CALL(
      cudaFuncSetAttribute(digit_product_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plan::kSharedBytes));
  TileGrid grid{shape.matrices,
                shape.m,
                shape.n,
                shape.k,
                ceil_div(shape.m, Plan::kRows * Plan::kCluster),
                ceil_div(shape.n, Plan::kCols),
                ceil_div(pair.wide.a.slices, kSlicesOfPanel<Plan>),
                false,
                y,
                nullptr};
  const int64_t clusters = context.multiprocessors() / Plan::kCluster;
  choose_parts(grid, clusters);
  DigitSums sums{pair.terms, pair.k_slices, pow2_f32(exponent), nullptr, ceil_div(shape.n, kWidth) * kWidth};
  if (grid.split) sums.partial = context.scratch<uint64_t>(grid.parts() * shape.matrices * shape.m * sums.pitch);
  const int64_t blocks = std::min(grid.tiles(), clusters) * Plan::kCluster;
  context.launch(digit_product_kernel, Context::per_block(blocks, Plan::kThreads, Plan::kSharedBytes), pair.wide, grid,
                 sums, epilogue);
  if (grid.split)
    context.launch(add_totals, context.per_item(shape.matrices * shape.m * sums.pitch / kWidth), grid, sums, epilogue);
}

}  // namespace fp4sim::gpu
