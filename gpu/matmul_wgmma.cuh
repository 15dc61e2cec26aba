// Persistent product kernel for compute capability 9.0a. One thread brings slices of 128 bytes of k by bulk copies into
// a ring of stages; warpgroups of 64 rows each multiply them on the tensor cores. Two blocks of a cluster, one tile
// below the other, share the columns' slices.
#pragma once

#include "gpu/certificate.cuh"
#include "gpu/late_scales.cuh"
#include "gpu/matmul_direct.cuh"
#include "gpu/product_outputs.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

// A rule: kBlocks, whether its tiles are sums of steps of 32 bytes, block by block; kSliceK, the k of a slice of 128
// bytes; multiply, the instruction of a step. product_kernel asks for OtherWay, what computes products of unfit
// operands; multiply_blocks for Late, what dots of blocks are multiplied by before they are added.

/// Where no operands are unfit.
struct NoOtherWay {};

/// int8 units, one sum over all of k (the vector rule).
struct Int8Rule {
  using OtherWay = NoOtherWay;
  static constexpr bool kBlocks = false;
  static constexpr int kSliceK = 128;
  template <int n>
  __device__ static void multiply(int (&d)[n], uint64_t a, uint64_t b) {
    add_int8(d, a, b);
  }
};

/// E5M2 numbers with the scales inside: the sum of a block of 32 is exact and is added to the panel's.
struct FoldedRule {
  using OtherWay = DirectProduct;
  using Late = LateScales;
  static constexpr bool kBlocks = true;
  static constexpr int kSliceK = 128;
  template <int n>
  __device__ static void multiply(float (&d)[n], uint64_t a, uint64_t b) {
    multiply_e5m2(d, a, b);
  }
};

template <class Plan>
struct ProductMemory {
  uint8_t* a;      // [stage][row][128]
  uint8_t* b;      // [stage][column][128]
  float* staging;  // [row][kPitch]; while panels are added [warpgroup][output / 4][thread][4]; or [warpgroup] factors
  Tile* tiles;     // [stage]: the tile whose first slice is there
  Barrier* full;   // [stage]
  Barrier* empty;  // [stage]
  float* bands;    // of a TileFilter or SumLimits

  __device__ explicit ProductMemory(uint8_t* raw) {
    uint8_t* first = raw + (Plan::kAlignment - shared_address(raw) % Plan::kAlignment) % Plan::kAlignment;
    a = first;
    b = a + Plan::kStages * Plan::kABytes;
    staging = reinterpret_cast<float*>(b + Plan::kStages * Plan::kBBytes);
    uint8_t* control = reinterpret_cast<uint8_t*>(staging) + Plan::kStagingBytes + Plan::kFactorBytes;
    tiles = reinterpret_cast<Tile*>(control);
    full = reinterpret_cast<Barrier*>(tiles + Plan::kStages);
    empty = full + Plan::kStages;
    bands = reinterpret_cast<float*>(empty + Plan::kStages);
  }
  /// What a warpgroup has for itself.
  __device__ float* own(int group) const {
    return staging + group * (Plan::kStaged ? 64 * Plan::kPitch : 2 * Plan::kCols);
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

/// Describes what a warpgroup multiplies of a stage. Instructions take descriptors from uniform registers: where the
/// compiler sees that all lanes have the same, it computes them there. Not so for the widest tiles: their
/// instructions are long enough to hide it, and the exchange between lanes costs more.
template <class Plan>
class SliceDescriptors {
 public:
  struct Both {
    uint64_t a, b;
  };

  __device__ SliceDescriptors(const ProductMemory<Plan>& memory, int group)
      : first_{matrix_descriptor(memory.a + same(group) * 64 * kSliceBytes), matrix_descriptor(memory.b)} {}
  __device__ Both of(const Turn<Plan>& turn) const {
    const auto stage = static_cast<uint32_t>(same(turn.stage));
    return {first_.a + stage * descriptor_step(Plan::kABytes), first_.b + stage * descriptor_step(Plan::kBBytes)};
  }

 private:
  __device__ static int same(int v) { return Plan::kCols <= 192 ? uniform(v) : v; }

  Both first_;
};

template <class Plan>
constexpr int64_t kSlicesOfPanel = kPanel / Plan::Rule::kSliceK;

/// The slices of a tile.
template <class Plan>
__device__ int slices_of(const Tile& tile, int64_t slices) {
  const int64_t first = tile.first_panel * kSlicesOfPanel<Plan>, end = tile.last_panel * kSlicesOfPanel<Plan>;
  return static_cast<int>(least(end, slices) - first);
}

/// Brings the slices of a tile, and the tile itself before the first.
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
  const int64_t first = tile.first_panel * kSlicesOfPanel<Plan>;
  const uint8_t *from_a = a.at(tile.matrix, first, row), *from_b = b.at(tile.matrix, first, col);
  const int count = slices_of<Plan>(tile, a.slices);
#pragma unroll 1
  for (int i = 0; i < count; ++i, turn.next()) {
    Barrier& full = memory.full[turn.stage];
    memory.empty[turn.stage].wait(turn.parity ^ 1);
    if (i == 0) memory.tiles[turn.stage] = tile;
    full.arrive_expecting(a_bytes + all_b);
    if (a_bytes != 0) copy_bulk(memory.a + turn.stage * Plan::kABytes, from_a, a_bytes, full);
    if (b_bytes != 0) {
      uint8_t* to = memory.b + turn.stage * Plan::kBBytes + rank * kShare * kSliceBytes;
      if constexpr (Plan::kCluster == 1) {
        copy_bulk(to, from_b, b_bytes, full);
      } else {
        copy_bulk_to((1 << Plan::kCluster) - 1, to, from_b, b_bytes, full);
      }
    }
    from_a += a.rows * kSliceBytes, from_b += b.rows * kSliceBytes;
  }
}

/// Brings the slices of the tiles of this block's cluster that the filter takes, then one without panels: the end.
template <class Plan, class Filter>
__device__ void copy_tiles(const ProductMemory<Plan>& memory, const WidePair& pair, const TileGrid& grid,
                           const Filter& filter, uint32_t rank) {
  constexpr int kRows = Plan::kRows * Plan::kCluster;
  Turn<Plan> turn;
  const auto tiles = static_cast<uint32_t>(grid.tiles());
  for (uint32_t item = blockIdx.x / Plan::kCluster; item < tiles; item += gridDim.x / Plan::kCluster) {
    const Tile tile = tile_at(grid, item, kRows, Plan::kCols);
    if (filter.takes(tile, kRows, Plan::kCols)) copy_slices(memory, turn, pair, tile, rank);
  }
  memory.empty[turn.stage].wait(turn.parity ^ 1);
  memory.tiles[turn.stage] = {};
  memory.full[turn.stage].arrive_expecting(0);
}

/// Waits until the warpgroup's finished rows of the tile before have left its staging memory.
template <class Plan>
__device__ void free_staging(int group) {
  if constexpr (Plan::kStaged) wait_stores();
  synchronize_warpgroup(group);
}

/// Gives a stage back to the copying threads of all blocks of the cluster.
template <class Plan>
__device__ void release(const ProductMemory<Plan>& memory, int stage) {
  const uint32_t lane = threadIdx.x % kWarp;
  if (lane < Plan::kCluster) memory.empty[stage].arrive_at(lane);
}

/// What a warpgroup knows of the tile that it multiplies.
template <class Plan>
struct TileWork {
  const TileGrid& grid;
  const Epilogue& epilogue;
  const Tile& tile;
  const LanePlace& lane;
  const ColumnFactors<Plan>& columns;
  int slices;      // of the tile
  int group;       // number of the warpgroup
  float* staging;  // its own
};

/// Finishes and writes a tile's outputs. Nobody uses the staging memory.
template <class Plan, class Value>
__device__ void finish_tile(const TileWork<Plan>& w, const Value& value) {
  w.columns.publish(w.staging);
  synchronize_warpgroup(w.group);
  store_outputs<Plan>(value, w.grid, w.epilogue, w.tile, w.lane, w.staging);
}

/// The sums of integers of the next `count` slices.
template <class Plan>
__device__ void sum_slices(const ProductMemory<Plan>& memory, Turn<Plan>& turn, int group, int64_t count,
                           int (&sum)[Plan::kOwn]) {
#pragma unroll
  for (int& s : sum) s = 0;
  int held = -1;  // the stage of the slice before, which is still being read
  const SliceDescriptors<Plan> slices(memory, group);
#pragma unroll 1
  for (; count > 0; --count, turn.next()) {
    const auto [da, db] = slices.of(turn);
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
}

/// All k of a tile in one sum of integers, whose unit is `unit`.
template <class Plan>
__device__ void multiply_vectors(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const TileWork<Plan>& w,
                                 float unit) {
  int sum[Plan::kOwn];
  sum_slices(memory, turn, w.group, w.slices, sum);
  free_staging<Plan>(w.group);
  finish_tile(w, [&](int i) { return static_cast<float>(sum[i]) * unit; });
}

/// Blocks, each a step of the instructions, in panels of 1024.
template <class Plan>
__device__ void multiply_blocks(const ProductMemory<Plan>& memory, Turn<Plan>& turn, const TileWork<Plan>& w,
                                const LateRows& late_rows) {
  typename Plan::Rule::Late late(late_rows, w.tile, w.lane, w.tile.first_panel * kSlicesOfPanel<Plan>);
  float4* totals = reinterpret_cast<float4*>(w.staging) + threadIdx.x % kWarpgroup;
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
      late.load();
      memory.full[turn.stage].wait(turn.parity);
      start(left, da, db);
      start(right, da, db + kOtherHalf);
#pragma unroll
      for (int step = 1; step <= Plan::kSteps; ++step) {
        const uint64_t a_next = da + step * descriptor_step(32), b_next = db + step * descriptor_step(32);
        wait_products<1>();
        pin(left);
        late.add(sum, left, step - 1);
        if (step < Plan::kSteps) {
          start(left, a_next, b_next);
          wait_products<1>();
        } else {
          wait_products<0>();
          release(memory, turn.stage);
        }
        pin(right);
        late.add(sum + kHalf, right, step - 1);
        if (step < Plan::kSteps) start(right, a_next, b_next + kOtherHalf);
      }
    }
    if (first == 0) free_staging<Plan>(w.group);
    if (w.slices <= kPanelSlices) break;
#pragma unroll
    for (int q = 0; q < Plan::kOwn / 4; ++q) {
      float4 t = make_float4(sum[4 * q], sum[4 * q + 1], sum[4 * q + 2], sum[4 * q + 3]);
      if (first > 0) {
        const float4 before = totals[q * kWarpgroup];
        t = make_float4(before.x + t.x, before.y + t.y, before.z + t.z, before.w + t.w);
      }
      totals[q * kWarpgroup] = t;
      sum[4 * q] = t.x, sum[4 * q + 1] = t.y, sum[4 * q + 2] = t.z, sum[4 * q + 3] = t.w;
    }
  }
  if (w.slices > kPanelSlices) synchronize_warpgroup(w.group);
  finish_tile(w, [&](int i) { return sum[i]; });
}

/// The work of a block of threads: one thread brings slices, warpgroups multiply. Calls work(turn, tile, number of the
/// warpgroup, rank of the block) for the tiles as they come; the whole block calls.
template <class Plan, class Filter, class Work>
__device__ void run_tiles(const ProductMemory<Plan>& memory, const WidePair& pair, const TileGrid& grid,
                          const Filter& filter, const Work& work) {
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
  if (group < 0) {
    release_registers<Plan::kCopyRegisters>();
    if (threadIdx.x == 0) copy_tiles(memory, pair, grid, filter, rank);
  } else {
    take_registers<Plan::kRegisters>();
    for (Turn<Plan> turn;;) {
      memory.full[turn.stage].wait(turn.parity);
      const Tile tile = memory.tiles[turn.stage];
      if (tile.last_panel == 0) break;
      work(turn, tile, group, rank);
    }
    finish_stores();
  }
  if constexpr (Plan::kCluster > 1) synchronize_cluster();  // a block that others still write to must not end
}

/// Calls multiply(turn, work) for the tiles that the filter takes.
template <class Plan, class Filter, class Multiply>
__device__ void multiply_tiles(const ProductMemory<Plan>& memory, const WidePair& pair, const TileGrid& grid,
                               const Epilogue& epilogue, const Filter& filter, const Multiply& multiply) {
  run_tiles(memory, pair, grid, filter, [&](Turn<Plan>& turn, const Tile& tile, int group, uint32_t rank) {
    const LanePlace lane = LanePlace::of<Plan>(grid, epilogue, tile, tile.first_row + rank * Plan::kRows + group * 64);
    const ColumnFactors<Plan> columns(grid, epilogue, tile);
    const int slices = slices_of<Plan>(tile, pair.a.slices);
    multiply(turn, TileWork<Plan>{grid, epilogue, tile, lane, columns, slices, group, memory.own(group)});
  });
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

/// The tiles of `grid` that the certificates name; if the operands are unfit, in the other way. A unit of integer sums
/// is `unit`. The first block writes the map of certified bands where there is one.
template <class Plan>
__global__ void __cluster_dims__(Plan::kCluster, 1, 1) __launch_bounds__(Plan::kThreads, 1)
    product_kernel(const __grid_constant__ WidePair pair, const __grid_constant__ TileGrid grid,
                   const __grid_constant__ Epilogue epilogue, float unit, const __grid_constant__ UnfitFlags unfit,
                   const __grid_constant__ LateRows late, const __grid_constant__ Certificates certificates,
                   uint8_t* map, const __grid_constant__ typename Plan::Rule::OtherWay other_way) {
  const bool is_unfit = unfit.any();
  const ProductMemory<Plan> memory(dynamic_shared());
  const TileFilter filter(certificates, memory.bands);
  if (certificates.which == Tiles::others && filter.all_certified()) return;
  if (map != nullptr && blockIdx.x == 0) store_map(certificates, filter, map);
  if constexpr (std::is_same_v<typename Plan::Rule::OtherWay, DirectProduct>) {
    if (is_unfit) return multiply_direct(other_way, grid, epilogue, unit, filter, dynamic_shared());
  }
  multiply_tiles(memory, pair, grid, epilogue, filter, [&](Turn<Plan>& turn, const TileWork<Plan>& work) {
    if constexpr (Plan::Rule::kBlocks) {
      multiply_blocks(memory, turn, work, late);
    } else {
      multiply_vectors(memory, turn, work, unit);
    }
  });
}

}  // namespace fp4sim::gpu
