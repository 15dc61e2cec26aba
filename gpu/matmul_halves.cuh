// Products of fp16 numbers by the block rule for blocks of 16, in two turns. First all tiles that are likely to stay
// below their limits (sum_limits.cuh) get the sum of a panel from one chain of tensor core products, and the largest of
// the sums on the way shows whether it is the rule's; the others are marked. Then the marked tiles are computed block
// by block.
#pragma once

#include "gpu/matmul_wgmma.cuh"
#include "gpu/sum_limits.cuh"

namespace fp4sim::gpu {

/// fp16 numbers with the scales inside; each step of the instructions is a block of 16 k.
struct HalvesRule {
  using Late = ScalesInside;
  static constexpr bool kBlocks = true;
  static constexpr int kSliceK = 64;
  template <int n>
  __device__ static void multiply(float (&d)[n], uint64_t a, uint64_t b) {
    multiply_f16(d, a, b);
  }
};

/// The same numbers, the sum of a panel.
struct ObservedRule {
  static constexpr bool kBlocks = false;
  static constexpr int kSliceK = 64;
};
static_assert(ObservedRule::kSliceK == 2 * kPartK);

/// The tiles of a grid of which some are marked.
struct TileMarks {
  uint8_t* data;  // [part][matrix][row of tiles][column of tiles]; nullptr: all are
  int64_t matrices, tiles_m, tiles_n;

  template <class Plan>
  __device__ uint8_t& of(const Tile& t) const {
    const int64_t row = quotient(t.first_row, Plan::kRows), col = quotient(t.first_col, Plan::kCols);
    return data[((t.part * matrices + t.matrix) * tiles_m + row) * tiles_n + col];
  }
};

/// As a filter of tiles: those that are marked.
template <class Plan>
struct MarkedTiles {
  const TileMarks& marks;

  __device__ bool takes(const Tile& tile, int, int) const { return marks.data == nullptr || marks.of<Plan>(tile) != 0; }
};

/// Calls use(tile) for the tiles that this block of threads comes to, each in one of its threads.
template <class Plan, class Use>
__device__ void for_own_tiles(const TileGrid& grid, const Use& use) {
  static_assert(Plan::kCluster == 1);
  const int64_t step = int64_t{gridDim.x} * blockDim.x, tiles = grid.tiles();
  for (int64_t item = blockIdx.x + int64_t{threadIdx.x} * gridDim.x; item < tiles; item += step)
    use(tile_at(grid, item, Plan::kRows, Plan::kCols));
}

/// The sums of a tile, added to a chain of tensor core products panel by panel, then panel to panel. Returns the
/// largest magnitude that the kernel has seen in this thread's sums, after each slice, that is two parts.
template <class Plan>
__device__ float multiply_observed(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const TileWork<Plan>& w) {
  constexpr int kHalf = Plan::kOwn / 2;  // outputs of a half of the columns: operands end at halves
  static_assert(Plan::kCols == 2 * kWideRows);
  float sum[Plan::kOwn], total[Plan::kOwn], most[2] = {};
#pragma unroll
  for (float& t : total) t = 0.0f;
  constexpr int kPanelSlices = static_cast<int>(kSlicesOfPanel<Plan>);
  const SliceDescriptors<Plan> slices(memory, w.group);
#pragma unroll 1
  for (int first = 0; first < w.slices; first += kPanelSlices) {
#pragma unroll
    for (float& s : sum) s = 0.0f;
    const int end = min(first + kPanelSlices, w.slices);
#pragma unroll 1
    for (int slice = first; slice < end; ++slice, turn.next()) {
      const auto [da, db] = slices.of(turn);
      memory.full[turn.stage].wait(turn.parity);
      pin(sum);
      begin_products();
#pragma unroll
      for (int step = 0; step < Plan::kSteps; ++step)
        add_f16(sum, da + step * descriptor_step(32), db + step * descriptor_step(32));
      commit_products();
      wait_products<0>();
      pin(sum);
      release(memory, turn.stage);
#pragma unroll
      for (int i = 0; i < kHalf; i += 2) {
        most[0] = fmaxf(most[0], fmaxf(fabsf(sum[i]), fabsf(sum[i + 1])));
        most[1] = fmaxf(most[1], fmaxf(fabsf(sum[kHalf + i]), fabsf(sum[kHalf + i + 1])));
      }
    }
#pragma unroll
    for (int i = 0; i < Plan::kOwn; ++i) total[i] = total[i] + sum[i];
  }
  free_staging<Plan>(w.group);
  finish_tile(w, [&](int i) { return total[i]; });
  return w.tile.first_col + kWideRows < w.grid.n ? fmaxf(most[0], most[1]) : most[0];
}

/// The first turn.
template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    observe_product(const __grid_constant__ WidePair pair, const __grid_constant__ TileGrid grid,
                    const __grid_constant__ Epilogue epilogue, const __grid_constant__ ValueBounds a,
                    const __grid_constant__ ValueBounds b, const __grid_constant__ TileMarks marks) {
  const ProductMemory<Plan> memory(dynamic_shared());
  const SumLimits limits(a, b, memory.bands);
  for_own_tiles<Plan>(
      grid, [&](const Tile& tile) { marks.of<Plan>(tile) = limits.takes(tile, Plan::kRows, Plan::kCols) ? 0 : 1; });
  // run_tiles synchronizes the block before a tile of it can be marked.
  multiply_tiles(memory, pair, grid, epilogue, limits, [&](Turn<Plan>& turn, const TileWork<Plan>& w) {
    const float most = multiply_observed(memory, turn, w);
    constexpr int kWarpRows = 16;
    const int64_t row = w.lane.row - threadIdx.x % kWarp / 4;
    const float limit = limits.of(w.tile.matrix, row, kWarpRows, w.tile.first_col, Plan::kCols);
    if (w.lane.row < w.grid.m && !(most <= limit)) marks.of<Plan>(w.tile) = 1;
  });
}

/// The second turn: the marked tiles.
template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    multiply_marked(const __grid_constant__ WidePair pair, const __grid_constant__ TileGrid grid,
                    const __grid_constant__ Epilogue epilogue, const __grid_constant__ TileMarks marks) {
  const MarkedTiles<Plan> filter{marks};
  int any = 0;
  for_own_tiles<Plan>(grid, [&](const Tile& tile) { any |= filter.takes(tile, 0, 0) ? 1 : 0; });
  if (__syncthreads_or(any) == 0) return;
  const ProductMemory<Plan> memory(dynamic_shared());
  multiply_tiles(memory, pair, grid, epilogue, filter,
                 [&](Turn<Plan>& turn, const TileWork<Plan>& w) { multiply_blocks(memory, turn, w, LateRows{}); });
}

}  // namespace fp4sim::gpu
