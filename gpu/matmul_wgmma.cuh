// Persistent product kernel for compute capability 9.0a. One thread brings slices of 128 bytes of k by bulk copies into
// a ring of stages; warpgroups of 64 rows each multiply them on the tensor cores. Two blocks of a cluster, one tile
// below the other, share the columns' slices.
#pragma once

#include "gpu/certificate.cuh"
#include "gpu/product_outputs.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

// A rule: whether its tiles are sums of integers or, block by block, of numbers; slices of 128 bytes, whose steps of 32
// bytes are blocks.

/// int8 units, one sum over all of k (the vector rule).
struct Int8Rule {
  static constexpr bool kBlocks = false;
  static constexpr int kSliceK = 128;
  template <int n>
  __device__ static void multiply(int (&d)[n], uint64_t a, uint64_t b) {
    add_int8(d, a, b);
  }
};

/// E5M2 numbers with the scales inside: the sum of a block of 32 is exact and is added to the panel's.
struct FoldedRule {
  static constexpr bool kBlocks = true;
  static constexpr int kSliceK = 128;
  template <int n>
  __device__ static void multiply(float (&d)[n], uint64_t a, uint64_t b) {
    multiply_e5m2(d, a, b);
  }
};

/// fp16 numbers with the scales inside: blocks of 16 k.
struct HalvesRule {
  static constexpr bool kBlocks = true;
  static constexpr int kSliceK = 64;
  template <int n>
  __device__ static void multiply(float (&d)[n], uint64_t a, uint64_t b) {
    multiply_f16(d, a, b);
  }
};

template <class Plan>
struct ProductMemory {
  uint8_t* a;      // [stage][row][128]
  uint8_t* b;      // [stage][column][128]
  float* staging;  // [row][kPitch]; while panels are added [warpgroup][output / 4][thread][4]
  Barrier* full;   // [stage]
  Barrier* empty;  // [stage]
  float* bands;    // of the TileFilter

  __device__ explicit ProductMemory(uint8_t* raw) {
    uint8_t* first = raw + (Plan::kAlignment - shared_address(raw) % Plan::kAlignment) % Plan::kAlignment;
    a = first;
    b = a + Plan::kStages * Plan::kABytes;
    staging = reinterpret_cast<float*>(b + Plan::kStages * Plan::kBBytes);
    full = reinterpret_cast<Barrier*>(reinterpret_cast<uint8_t*>(staging) + Plan::kStagingBytes);
    empty = full + Plan::kStages;
    bands = reinterpret_cast<float*>(empty + Plan::kStages);
  }
};

/// The stage in use and the parity of its phase.
template <class Plan>
struct Turn {
  int stage = 0;
  uint32_t parity = 0;

  __device__ void next() {
    if (++stage == Plan::kStages) stage = 0, parity ^= 1;
  }
};

template <class Plan>
constexpr int64_t kSlicesOfPanel = kPanel / Plan::Rule::kSliceK;

/// Calls work(tile) for the tiles of this block's cluster.
template <class Plan, class Work>
__device__ void each_tile(const TileGrid& grid, const TileFilter& filter, const Work& work) {
  constexpr int kRows = Plan::kRows * Plan::kCluster;
  for (int64_t item = blockIdx.x / Plan::kCluster; item < grid.tiles(); item += gridDim.x / Plan::kCluster) {
    const Tile tile = tile_at(grid, item, kRows, Plan::kCols);
    if (filter.takes(tile, kRows, Plan::kCols)) work(tile);
  }
}

/// Brings the slices of a tile.
template <class Plan>
__device__ void copy_slices(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const WidePair& pair, const Tile& tile,
                            uint32_t rank) {
  constexpr int kShare = Plan::kCols / Plan::kCluster;  // columns that this block brings for the cluster
  const WideOperand &a = pair.a, &b = pair.b;
  const int64_t row = tile.first_row + rank * Plan::kRows, col = tile.first_col + rank * kShare;
  const auto bytes = [](int64_t rows, int64_t most) {
    return static_cast<uint32_t>(rows < 0 ? 0 : least(rows, most)) * kSliceBytes;
  };
  const uint32_t a_bytes = bytes(a.rows - row, Plan::kRows), all_b = bytes(b.rows - tile.first_col, Plan::kCols);
  const uint32_t b_bytes = bytes(b.rows - col, kShare);
  const int64_t end = least(tile.last_panel * kSlicesOfPanel<Plan>, a.slices);
  for (int64_t slice = tile.first_panel * kSlicesOfPanel<Plan>; slice < end; ++slice, turn.next()) {
    Barrier& full = memory.full[turn.stage];
    memory.empty[turn.stage].wait(turn.parity ^ 1);
    full.arrive_expecting(a_bytes + all_b);
    if (a_bytes != 0) copy_bulk(memory.a + turn.stage * Plan::kABytes, a.at(tile.matrix, slice, row), a_bytes, full);
    if (b_bytes == 0) continue;
    uint8_t* to = memory.b + turn.stage * Plan::kBBytes + rank * kShare * kSliceBytes;
    if constexpr (Plan::kCluster == 1) {
      copy_bulk(to, b.at(tile.matrix, slice, col), b_bytes, full);
    } else {
      copy_bulk_to((1 << Plan::kCluster) - 1, to, b.at(tile.matrix, slice, col), b_bytes, full);
    }
  }
}

/// Waits until the warpgroup's finished rows of the tile before have left its staging memory.
template <class Plan>
__device__ void free_staging(int group) {
  if constexpr (Plan::kStaged) {
    wait_stores();
    synchronize_warpgroup(group);
  }
}

/// Gives a stage back to the copying threads of all blocks of the cluster.
template <class Plan>
__device__ void release(const ProductMemory<Plan>& memory, int stage) {
  const uint32_t lane = threadIdx.x % kWarp;
  if (lane < Plan::kCluster) memory.empty[stage].arrive_at(lane);
}

/// What the warpgroups know of the tile that they multiply.
struct TileWork {
  const TileGrid& grid;
  const Tile& tile;
  const LanePlace& lane;
  int64_t slices;  // of all k
  int group;       // number of the warpgroup
};

/// All k of a tile in one sum of integers, whose unit is `unit`.
template <class Plan>
__device__ void multiply_vectors(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const TileWork& w, float unit) {
  int sum[Plan::kOwn];
#pragma unroll
  for (int& s : sum) s = 0;
  const int64_t end = least(w.tile.last_panel * kSlicesOfPanel<Plan>, w.slices);
  int held = -1;  // the stage of the slice before, which is still being read
#pragma unroll 1
  for (int64_t slice = w.tile.first_panel * kSlicesOfPanel<Plan>; slice < end; ++slice, turn.next()) {
    const uint64_t da = matrix_descriptor(memory.a + turn.stage * Plan::kABytes + w.group * 64 * kSliceBytes);
    const uint64_t db = matrix_descriptor(memory.b + turn.stage * Plan::kBBytes);
    memory.full[turn.stage].wait(turn.parity);
    begin_products();
#pragma unroll
    for (int step = 0; step < Plan::kSteps; ++step)
      Plan::Rule::multiply(sum, da + step * descriptor_step(32), db + step * descriptor_step(32));
    commit_products();
    wait_products<1>();
    if (held >= 0) release(memory, held);
    held = turn.stage;
  }
  wait_products<0>();
  pin(sum);
  release(memory, held);
  free_staging<Plan>(w.group);
  store_outputs<Plan>([&](int i) { return static_cast<float>(sum[i]) * unit; }, w.grid, w.tile, w.lane,
                      memory.staging + w.group * 64 * Plan::kPitch, w.group);
}

/// Blocks, each a step of the instructions, in panels of 1024.
template <class Plan>
__device__ void multiply_blocks(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const TileWork& w) {
  float* staging = memory.staging + w.group * 64 * Plan::kPitch;
  float4* totals = reinterpret_cast<float4*>(staging) + threadIdx.x % kWarpgroup;
  constexpr int kHalf = Plan::kOwn / 2;
  constexpr uint64_t kOtherHalf = descriptor_step(Plan::kCols / 2 * kSliceBytes);  // of the columns
  float sum[Plan::kOwn], left[kHalf], right[kHalf];
#pragma unroll
  for (int i = 0; i < kHalf; ++i) left[i] = right[i] = 0.0f;
  const auto start = [](float(&dot)[kHalf], uint64_t da, uint64_t db) {
    begin_products();
    Plan::Rule::multiply(dot, da, db);
    commit_products();
  };
#pragma unroll 1
  for (int64_t panel = w.tile.first_panel; panel < w.tile.last_panel; ++panel) {
#pragma unroll
    for (float& s : sum) s = 0.0f;
    const int64_t first = panel * kSlicesOfPanel<Plan>, end = least(first + kSlicesOfPanel<Plan>, w.slices);
#pragma unroll 1
    for (int64_t slice = first; slice < end; ++slice, turn.next()) {
      const uint64_t da = matrix_descriptor(memory.a + turn.stage * Plan::kABytes + w.group * 64 * kSliceBytes);
      const uint64_t db = matrix_descriptor(memory.b + turn.stage * Plan::kBBytes);
      memory.full[turn.stage].wait(turn.parity);
      start(left, da, db);
      start(right, da, db + kOtherHalf);
#pragma unroll
      for (int step = 1; step <= Plan::kSteps; ++step) {
        const uint64_t a_next = da + step * descriptor_step(32), b_next = db + step * descriptor_step(32);
        wait_products<1>();
        pin(left);
#pragma unroll
        for (int i = 0; i < kHalf; ++i) sum[i] = sum[i] + left[i];
        if (step < Plan::kSteps) {
          start(left, a_next, b_next);
          wait_products<1>();
        } else {
          wait_products<0>();
          release(memory, turn.stage);
        }
        pin(right);
#pragma unroll
        for (int i = 0; i < kHalf; ++i) sum[kHalf + i] = sum[kHalf + i] + right[i];
        if (step < Plan::kSteps) start(right, a_next, b_next + kOtherHalf);
      }
    }
    if (panel == w.tile.first_panel) free_staging<Plan>(w.group);
    if (w.tile.last_panel - w.tile.first_panel == 1) break;
#pragma unroll
    for (int q = 0; q < Plan::kOwn / 4; ++q) {
      float4 t = make_float4(sum[4 * q], sum[4 * q + 1], sum[4 * q + 2], sum[4 * q + 3]);
      if (panel > w.tile.first_panel) {
        const float4 before = totals[q * kWarpgroup];
        t = make_float4(before.x + t.x, before.y + t.y, before.z + t.z, before.w + t.w);
      }
      totals[q * kWarpgroup] = t;
      sum[4 * q] = t.x, sum[4 * q + 1] = t.y, sum[4 * q + 2] = t.z, sum[4 * q + 3] = t.w;
    }
  }
  synchronize_warpgroup(w.group);
  store_outputs<Plan>([&](int i) { return sum[i]; }, w.grid, w.tile, w.lane, staging, w.group);
}

/// Writes which pairs of bands are certified: [matrix][band of a][band of b].
__device__ inline void store_map(const Certificates& c, const TileFilter& filter, uint8_t* map) {
  for (int64_t i = threadIdx.x; i < c.matrices() * c.a.bands * c.b.bands; i += blockDim.x) {
    const int64_t outer = quotient(i, c.b.bands), matrix = quotient(outer, c.a.bands);
    const uint32_t band_a = static_cast<uint32_t>(outer - matrix * c.a.bands);
    const uint32_t band_b = static_cast<uint32_t>(i - outer * c.b.bands);
    const Tile band{matrix, c.a.first_row(band_a), c.b.first_row(band_b), 0, 0, 0};
    map[i] = filter.takes(band, 1, 1) ? 1 : 0;
  }
}

/// The tiles of `grid` that the certificates name, unless the operands are unfit. A unit of integer sums is `unit`. The
/// first block writes the map of certified bands where there is one.
template <class Plan>
__global__ void __cluster_dims__(Plan::kCluster, 1, 1) __launch_bounds__(Plan::kThreads, 1)
    product_kernel(const __grid_constant__ WidePair pair, const __grid_constant__ TileGrid grid,
                   const __grid_constant__ Epilogue epilogue, float unit, const __grid_constant__ UnfitFlags unfit,
                   const __grid_constant__ Certificates certificates, uint8_t* map) {
  if (unfit.any()) return;
  const ProductMemory<Plan> memory(dynamic_shared());
  const TileFilter filter(certificates, memory.bands);
  if (certificates.which == Tiles::others && filter.all_certified()) return;
  if (map != nullptr && blockIdx.x == 0) store_map(certificates, filter, map);
  const int group = static_cast<int>(threadIdx.x / kWarpgroup) - 1;
  const uint32_t rank = Plan::kCluster == 1 ? 0 : cluster_rank();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      memory.full[stage].init(1);
      memory.empty[stage].init(Plan::kWarpgroups * 4 * Plan::kCluster);
    }
    publish_barriers();
  }
  if constexpr (Plan::kCluster > 1) synchronize_cluster();
  __syncthreads();
  Turn<Plan> turn;
  if (group < 0) {
    release_registers<Plan::kCopyRegisters>();
    if (threadIdx.x == 0)
      each_tile<Plan>(grid, filter, [&](const Tile& tile) { copy_slices(memory, turn, pair, tile, rank); });
  } else {
    take_registers<Plan::kRegisters>();
    each_tile<Plan>(grid, filter, [&](const Tile& tile) {
      const int64_t first_row = tile.first_row + rank * Plan::kRows + group * 64;
      const LanePlace lane = LanePlace::of<Plan>(grid, epilogue, tile, first_row);
      const TileWork work{grid, tile, lane, pair.a.slices, group};
      if constexpr (Plan::Rule::kBlocks) {
        multiply_blocks(memory, turn, work);
      } else {
        multiply_vectors(memory, turn, work, unit);
      }
    });
    finish_stores();
  }
  if constexpr (Plan::kCluster > 1) synchronize_cluster();  // a block that others still write to must not end
}

}  // namespace fp4sim::gpu
