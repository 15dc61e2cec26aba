// How a block of threads of the warpgroup products works, and how its finished outputs leave.
#pragma once

#include "gpu/certificate.cuh"
#include "gpu/hopper.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// How a block of threads works: warpgroups that multiply, columns of its tile, blocks of a cluster; and whether
/// finished rows go through shared memory, which then has room for fewer slices.
template <class Rule_, int warpgroups, int cols, int cluster, bool staged = cols <= 192>
struct ProductPlan {
  using Rule = Rule_;
  static constexpr int kWarpgroups = warpgroups, kCols = cols, kCluster = cluster;
  static constexpr int kRows = 64 * warpgroups;  // of a block's tile; the cluster's has kCluster times as many
  static constexpr int kThreads = kWarpgroup * (warpgroups + 1);
  static constexpr int kOwn = cols / 2;  // outputs of a thread
  static constexpr int kSteps = kSliceBytes / 32;
  static constexpr int kABytes = kRows * kSliceBytes, kBBytes = cols * kSliceBytes;
  // Finished rows go through shared memory and leave by bulk copies while the next tile is computed; the same memory
  // holds the panels so far. The pitch lays the eight rows of a store into different banks; what it leaves free behind
  // the rows holds the columns' factors.
  static constexpr bool kStaged = staged;
  static constexpr int kGap = 8, kPitch = cols + kGap;
  static constexpr int kStagingBytes = kStaged ? kRows * kPitch * 4 : 0;
  static_assert(kStaged || !Rule::kBlocks);
  static constexpr int kFactorBytes = kStaged ? 0 : warpgroups * 2 * cols * 4;
  static constexpr int kSharedBytes = 227 * 1024, kAlignment = 1024, kMostStages = 15;
  static constexpr int kControlBytes = kMostStages * (2 * sizeof(uint64_t) + sizeof(Tile)) + kBandBytes;
  static constexpr int kStages =
      (kSharedBytes - kStagingBytes - kFactorBytes - kAlignment - kControlBytes) / (kABytes + kBBytes);
  static_assert(kStages >= 2 && kStages <= kMostStages);
  // The launch gives each thread the same registers; the copying warpgroup leaves most of its own to the others.
  static constexpr int kCopyRegisters = warpgroups == 2 ? 40 : 32, kRegisters = warpgroups == 2 ? 232 : 160;
};

/// What one column's finished outputs are multiplied by and added to. A product without one has a factor or a term that
/// changes no bit: 1 or −0.
enum class ColumnFactor { scale, bias };

/// The factors of a warpgroup's columns: each thread reads some while the product is computed; then all are in shared
/// memory.
template <class Plan>
class ColumnFactors {
 public:
  __device__ ColumnFactors(const TileGrid& grid, const Epilogue& epilogue, const Tile& tile) {
    const bool scaled = !grid.split && epilogue.scales_b.data != nullptr;
    const float* bias = grid.split ? nullptr : epilogue.bias_of(tile.matrix);
    const float* scales = scaled ? epilogue.scales_b.block(tile.matrix, 0) : nullptr;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t col = tile.first_col + column(i);
      const bool exists = column(i) < Plan::kCols && col < grid.n;
      scales_[i] = scaled && exists ? __ldg(scales + col) : 1.0f;
      biases_[i] = bias != nullptr && exists ? __ldg(bias + col) : -0.0f;
    }
  }

  /// Stores this thread's; `staging` is the warpgroup's own.
  __device__ void publish(float* staging) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (column(i) >= Plan::kCols) continue;
      *at(staging, ColumnFactor::scale, column(i)) = scales_[i];
      *at(staging, ColumnFactor::bias, column(i)) = biases_[i];
    }
  }
  /// Of columns `col` and col + 1, col even.
  __device__ static float2 pair(float* staging, ColumnFactor factor, int col) {
    return *reinterpret_cast<const float2*>(at(staging, factor, col));
  }

 private:
  static constexpr int kEach = (Plan::kCols + kWarpgroup - 1) / kWarpgroup;

  __device__ static int column(int i) { return static_cast<int>(threadIdx.x % kWarpgroup) + i * kWarpgroup; }
  __device__ static float* at(float* staging, ColumnFactor factor, int col) {
    const int i = factor == ColumnFactor::scale ? col : Plan::kCols + col;
    if constexpr (!Plan::kStaged) return staging + i;
    return staging + i / Plan::kGap * Plan::kPitch + Plan::kCols + i % Plan::kGap;
  }

  float scales_[kEach], biases_[kEach];
};

/// Where the outputs of a lane lie, and the factors of its two rows, read while the product is computed.
struct LanePlace {
  int64_t row, col;  // the first of each
  float rows[2];
  float d_a, d_b, factor;
  bool more;  // factors besides the scales

  template <class Plan>
  __device__ static LanePlace of(const TileGrid& grid, const Epilogue& e, const Tile& tile, int64_t first_row) {
    const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp % 4);
    LanePlace p{first_row + 16 * warp + lane / 4, tile.first_col + lane % 4 * 2, {1.0f, 1.0f}, 1.0f, 1.0f, 1.0f, false};
    if (grid.split) return p;
    if (e.scales_a.data != nullptr) {
      const float* scales = e.scales_a.block(tile.matrix, 0);
      for (int h = 0; h < 2; ++h)
        if (p.row + 8 * h < grid.m) p.rows[h] = __ldg(scales + p.row + 8 * h);
    }
    if (e.d_a != nullptr) p.d_a = __ldg(e.d_a);
    if (e.d_b != nullptr) p.d_b = __ldg(e.d_b);
    p.factor = e.factor;
    p.more = e.d_a != nullptr || e.d_b != nullptr || e.factor != 1.0f;
    return p;
  }
};

/// Calls store(j, h, left, right) with the finished outputs of columns 8j + 2t and 8j + 2t + 1 of row h.
template <class Plan, bool more, class Value, class Store>
__device__ void finish_outputs(const Value& value, const LanePlace& lane, float* staging, const Store& store) {
  const int first = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int j = 0; j < Plan::kCols / 8; ++j) {
    const float2 scales = ColumnFactors<Plan>::pair(staging, ColumnFactor::scale, 8 * j + first);
    const float2 biases = ColumnFactors<Plan>::pair(staging, ColumnFactor::bias, 8 * j + first);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float2 v = make_float2(value(4 * j + 2 * h) * (lane.rows[h] * scales.x),
                             value(4 * j + 2 * h + 1) * (lane.rows[h] * scales.y));
      if constexpr (more) {
        v.x = v.x * lane.d_a * lane.d_b * lane.factor;
        v.y = v.y * lane.d_a * lane.d_b * lane.factor;
      }
      store(j, h, make_float2(v.x + biases.x, v.y + biases.y));
    }
  }
}

/// Starts the copies of the 16 rows that a warp has staged from `staging` on: a thread's copies are issued one after
/// the other, so every warp has its share. `first_row` is that of the first; `to` is the first output of the matrix.
template <class Plan>
__device__ void store_rows(const TileGrid& grid, const OutputPlaces& places, const Tile& tile, int64_t first_row,
                           float* to, const float* staging) {
  constexpr int kRows = 16;
  const int lane = static_cast<int>(threadIdx.x % kWarp), in_warp = lane % kRows;
  const int64_t row = first_row + in_warp;
  if (row >= grid.m) return;
  const int cols = static_cast<int>(least(grid.n - tile.first_col, Plan::kCols));
  const float* from = staging + in_warp * Plan::kPitch;
  if (grid.split || places.plain) {
    if (lane < kRows) store_bulk(to + row * grid.n + tile.first_col, from, static_cast<uint32_t>(cols) * 4);
    return;
  }
  to += places.of_row(row, grid.n);
  uint32_t outer = static_cast<uint32_t>(tile.first_col) / places.inner_cols;
  uint32_t inner = static_cast<uint32_t>(tile.first_col) - outer * places.inner_cols;
  // The two threads of a row take turns.
  for (int col = 0, turn = lane / kRows; col < cols; ++outer, inner = 0, turn ^= 1) {
    const int count = min(static_cast<int>(places.inner_cols - inner), cols - col);
    if (turn == 0) store_bulk(to + outer * places.outer_col + inner, from + col, static_cast<uint32_t>(count) * 4);
    col += count;
  }
}

/// Writes the outputs value(0), value(1) … of each thread of a warpgroup: two neighbouring columns of two rows for each
/// eight columns. `staging` is the warpgroup's own and free, the factors of the columns are there.
template <class Plan, class Value>
__device__ void store_outputs(const Value& value, const TileGrid& grid, const Epilogue& epilogue, const Tile& tile,
                              const LanePlace& lane, float* staging) {
  const OutputPlaces& places = epilogue.places;
  float* y = grid.split ? grid.partial + (tile.part * grid.matrices + tile.matrix) * grid.m * grid.n
                        : epilogue.matrix_of(grid.y, tile.matrix, grid.m, grid.n);
  const auto finish = [&](const auto& store) {
    if (lane.more) return finish_outputs<Plan, true>(value, lane, staging, store);
    finish_outputs<Plan, false>(value, lane, staging, store);
  };
  if (Plan::kStaged && grid.n % 4 == 0) {
    const int in_warp = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp % 4);
    float* rows = staging + 16 * warp * Plan::kPitch;
    float* to = rows + in_warp / 4 * Plan::kPitch + in_warp % 4 * 2;
    finish([&](int j, int h, float2 v) { *reinterpret_cast<float2*>(to + 8 * h * Plan::kPitch + 8 * j) = v; });
    publish_stores();
    __syncwarp();
    store_rows<Plan>(grid, places, tile, lane.row - in_warp / 4, y, rows);
    end_stores();
    return;
  }
  const int columns = static_cast<int>(least(grid.n - lane.col, Plan::kCols));  // from the lane's first on
  // Where rows could be staged, only odd sizes come here, and these lie plain; places have runs of four columns.
  const bool plain = Plan::kStaged || grid.split || places.plain;
  if (plain && grid.n % 2 == 0) {
    float* const first = y + lane.row * grid.n + lane.col;
    float* const rows[2] = {first, first + 8 * grid.n};
    return finish([&](int j, int h, float2 v) {
      if (lane.row + 8 * h < grid.m && 8 * j < columns) *reinterpret_cast<float2*>(rows[h] + 8 * j) = v;
    });
  }
  const auto row = [&](int64_t i) { return plain ? i * grid.n : places.of_row(i, grid.n); };
  float* const rows[2] = {y + row(lane.row), y + row(lane.row + 8)};
  finish([&](int j, int h, float2 v) {
    if (lane.row + 8 * h >= grid.m || 8 * j >= columns) return;
    if (!plain) {
      *reinterpret_cast<float2*>(rows[h] + places.of_col(lane.col + 8 * j)) = v;
      return;
    }
    float* const place = rows[h] + lane.col + 8 * j;
    place[0] = v.x;
    if (8 * j + 1 < columns) place[1] = v.y;
  });
}

}  // namespace fp4sim::gpu
