// How a block of threads of the warpgroup products works, and how its finished outputs leave.
#pragma once

#include "gpu/certificate.cuh"
#include "gpu/hopper.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// How a block of threads works: warpgroups that multiply, columns of its tile, blocks of a cluster.
template <class Rule_, int warpgroups, int cols, int cluster>
struct ProductPlan {
  using Rule = Rule_;
  static constexpr int kWarpgroups = warpgroups, kCols = cols, kCluster = cluster;
  static constexpr int kRows = 64 * warpgroups;  // of a block's tile; the cluster's has kCluster times as many
  static constexpr int kThreads = kWarpgroup * (warpgroups + 1);
  static constexpr int kOwn = cols / 2;  // outputs of a thread
  static constexpr int kSteps = kSliceBytes / 32;
  static constexpr int kABytes = kRows * kSliceBytes, kBBytes = cols * kSliceBytes;
  // Finished rows go through shared memory and leave by bulk copies while the next tile is computed; the same memory
  // holds the panels so far. The pitch lays the eight rows of a store into different banks.
  static constexpr bool kStaged = cols <= 192;
  static constexpr int kPitch = cols + 8;
  static constexpr int kStagingBytes = kStaged ? kRows * kPitch * 4 : 0;
  static_assert(kStaged || !Rule::kBlocks);
  static constexpr int kSharedBytes = 227 * 1024, kAlignment = 1024;
  static constexpr int kStages = (kSharedBytes - kStagingBytes - kAlignment - 256 - kBandBytes) / (kABytes + kBBytes);
  static_assert(kStages >= 2 && kStages <= 15);
  // The launch gives each thread the same registers; the copying warpgroup leaves most of its own to the others.
  static constexpr int kCopyRegisters = warpgroups == 2 ? 40 : 32, kRegisters = warpgroups == 2 ? 232 : 160;
};

/// What a lane multiplies its finished outputs by; 1 where there is no such factor, which changes no bit.
class LaneEpilogue {
 public:
  __device__ LaneEpilogue(const Epilogue& e, bool finishes, int64_t matrix)
      : scaled_(finishes && e.scales_a.data != nullptr),
        rows_(scaled_ ? e.scales_a.block(matrix, 0) : nullptr),
        cols_(scaled_ ? e.scales_b.block(matrix, 0) : nullptr),
        d_a_(finishes && e.d_a != nullptr ? __ldg(e.d_a) : 1.0f),
        d_b_(finishes && e.d_b != nullptr ? __ldg(e.d_b) : 1.0f),
        factor_(finishes ? e.factor : 1.0f) {}

  __device__ float row(int64_t i) const { return scaled_ ? __ldg(rows_ + i) : 1.0f; }
  /// Of columns j and j + 1, j even: the scales are padded to an even number.
  __device__ float2 cols(int64_t j) const {
    return scaled_ ? __ldg(reinterpret_cast<const float2*>(cols_ + j)) : make_float2(1.0f, 1.0f);
  }
  __device__ float operator()(float v, float row, float col) const { return v * (row * col) * d_a_ * d_b_ * factor_; }

 private:
  bool scaled_;
  const float* rows_;
  const float* cols_;
  float d_a_, d_b_, factor_;
};

/// Where the outputs of a lane lie, and the factors of its two rows, read while the product is computed.
struct LanePlace {
  int64_t row, col;  // the first of each
  LaneEpilogue finish;
  float rows[2];

  template <class Plan>
  __device__ static LanePlace of(const TileGrid& grid, const Epilogue& epilogue, const Tile& tile, int64_t first_row) {
    const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp % 4);
    const int64_t row = first_row + 16 * warp + lane / 4, col = tile.first_col + lane % 4 * 2;
    LanePlace p{row, col, LaneEpilogue(epilogue, !grid.split, tile.matrix), {0.0f, 0.0f}};
    for (int h = 0; h < 2; ++h)
      if (row + 8 * h < grid.m) p.rows[h] = p.finish.row(row + 8 * h);
    return p;
  }
};

/// Calls store(j, left, right of row 0, left, right of row 1) with the finished outputs of columns 8j + 2t and 8j + 2t
/// + 1.
template <class Plan, class Value, class Store>
__device__ void finish_outputs(const Value& value, int columns, const LanePlace& lane, const Store& store) {
  constexpr int kBatch = Plan::kCols % 128 == 0 ? 16 : 12;  // scales on their way
  static_assert(Plan::kCols / 8 % kBatch == 0);
#pragma unroll
  for (int first = 0; first < Plan::kCols / 8; first += kBatch) {
    float2 cols[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      cols[j] = 8 * (first + j) < columns ? lane.finish.cols(lane.col + 8 * (first + j)) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = 4 * (first + j) + 2 * h;
        store(first + j, h,
              make_float2(lane.finish(value(i), lane.rows[h], cols[j].x),
                          lane.finish(value(i + 1), lane.rows[h], cols[j].y)));
      }
  }
}

/// Writes the outputs value(0), value(1) … of each thread of a warpgroup: two neighbouring columns of two rows for each
/// eight columns. `staging` is the warpgroup's own and free.
template <class Plan, class Value>
__device__ void store_outputs(const Value& value, const TileGrid& grid, const Tile& tile, const LanePlace& lane,
                              float* staging, int group) {
  const int64_t part = grid.split ? tile.part * grid.matrices : 0;
  float* y = (grid.split ? grid.partial : grid.y) + (part + tile.matrix) * grid.m * grid.n;
  const int columns = static_cast<int>(least(grid.n - lane.col, Plan::kCols));  // from the lane's first on
  const int thread = static_cast<int>(threadIdx.x % kWarpgroup), in_group = thread / kWarp * 16 + thread % kWarp / 4;
  if (Plan::kStaged && grid.n % 4 == 0) {
    float* to = staging + in_group * Plan::kPitch + thread % 4 * 2;
    finish_outputs<Plan>(value, columns, lane, [&](int j, int h, float2 v) {
      *reinterpret_cast<float2*>(to + 8 * h * Plan::kPitch + 8 * j) = v;
    });
    publish_stores();
    synchronize_warpgroup(group);
    const int64_t row = lane.row - in_group + thread;
    if (thread < 64 && row < grid.m)
      store_bulk(y + row * grid.n + tile.first_col, staging + thread * Plan::kPitch,
                 static_cast<uint32_t>(least(grid.n - tile.first_col, Plan::kCols)) * 4);
    end_stores();
    return;
  }
  float* to = y + lane.row * grid.n + lane.col;
  const bool pairs = grid.n % 2 == 0;
  finish_outputs<Plan>(value, columns, lane, [&](int j, int h, float2 v) {
    float* place = to + h * 8 * grid.n + 8 * j;
    if (lane.row + 8 * h >= grid.m || 8 * j >= columns) return;
    if (pairs) {
      *reinterpret_cast<float2*>(place) = v;
    } else {
      place[0] = v.x;
      if (8 * j + 1 < columns) place[1] = v.y;
    }
  });
}

}  // namespace fp4sim::gpu
