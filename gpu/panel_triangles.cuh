// Products of the fp32 rule of which triangles are known (matmul_panels.h): warps leave out what multiplies zeros of
// operand a, and outputs that nobody reads.
//
// A stretch of +0·b leaves a chain as it is where every b is finite and, if the chain has begun before, it is not −0.
// So a warp multiplies by zero once what it leaves out, instead of once a row; if that is not zero, or an output is −0,
// the block computes the panel again, all of it.
#pragma once

#include "gpu/matmul_panels.h"
#include "gpu/panel_tile.cuh"

namespace fp4sim::gpu {

/// k of a panel, counted from its first, or of the part that some rows need; empty if last ≤ first.
struct KRange {
  int first, last;

  __device__ bool holds(int k) const { return k >= first && k < last; }
  /// The part in which rows row … row + rows − 1 of operand a, counted as k are, may differ from zero, in whole slices.
  __device__ KRange part_of(const KnownTriangles& known, int row, int rows) const {
    KRange part = *this;
    if (known.a_upper && row > first) part.first = row;
    if (known.a_lower && row + rows < last) part.last = row + rows;
    return part;
  }
};

/// A row counted from the first k of a panel, as near as it matters.
inline __device__ int row_in_panel(int64_t row, int64_t first_k) {
  return static_cast<int>(least(row - first_k < -kPanel ? -kPanel : row - first_k, kPanel));
}

/// Tile `number`, those with long chains before those with short ones.
inline __device__ Tile triangle_tile(const TileGrid& g, const KnownTriangles& known, int64_t number, int tile_m,
                                     int tile_n) {
  if (!known.a_lower && !known.a_upper) return tile_at(g, number, tile_m, tile_n);
  const int64_t outer = quotient(number, g.matrices * g.tiles_n), inside = number - outer * g.matrices * g.tiles_n;
  const int64_t matrix = quotient(inside, g.tiles_n), row = known.a_lower ? g.tiles_m - 1 - outer : outer;
  return {matrix, row * tile_m, (inside - matrix * g.tiles_n) * tile_n, 0, g.panels, 0};
}

/// Zero or NaN: `sum` plus zero times each value.
__device__ inline float add_zeros(float sum, const float4& v) {
  return fma32(v.x, 0.0f, fma32(v.y, 0.0f, fma32(v.z, 0.0f, fma32(v.w, 0.0f, sum))));
}

/// The sum of zeros for `rows` rows of b (as many as exist) and the given k, spread over the block's threads.
template <bool k_contiguous>
__device__ float zeros_of(const Operand& b, int64_t matrix, int64_t first_row, int rows, int64_t panel_k,
                          const KRange& ks) {
  constexpr int kAcross = 16;  // threads on one line
  if (ks.last <= ks.first) return 0.0f;
  rows = static_cast<int>(least(b.rows - first_row, rows));
  const int64_t first_k = panel_k + ks.first;
  const int count = ks.last - ks.first, lines = k_contiguous ? rows : count;
  const int length = k_contiguous ? count : rows;  // of a line
  const int64_t pitch = k_contiguous ? b.k : b.rows;
  const float* from = b.matrix(matrix) + (k_contiguous ? first_row * b.k + first_k : first_k * b.rows + first_row);
  constexpr int kLines = kPanelThreads / kAcross;
  const int first_line = static_cast<int>(threadIdx.x) / kAcross;
  float sum = 0.0f;
#pragma unroll 1
  for (int at = static_cast<int>(threadIdx.x) % kAcross * 4; at < length; at += kAcross * 4) {
    FourF32 four;
    if (b.aligned() && length % 4 == 0) {
#pragma unroll 8
      for (int line = first_line; line < lines; line += kLines) {
        four.read(from + line * pitch + at);
        sum = add_zeros(sum, four.values());
      }
    } else {
#pragma unroll 1
      for (int line = first_line; line < lines; line += kLines) {
        four.read_some(from + line * pitch + at, length - at);
        sum = add_zeros(sum, four.values());
      }
    }
  }
  return sum;
}

/// zeros: whether operand a has any that are known.
template <class Shape, bool a_contiguous, bool b_contiguous, bool zeros>
__global__ void __launch_bounds__(kPanelThreads, Shape::kBlocks)
    triangles_kernel(Operand a, Operand b, TileGrid grid, Epilogue epilogue, KnownTriangles known) {
  using LoaderA = SliceLoader<float, Shape::kTileM, a_contiguous>;
  using LoaderB = SliceLoader<float, Shape::kTileN, b_contiguous>;
  using Outputs = PanelOutputs<Shape>;
  static_assert(Shape::kWarpsN == 1 && Shape::kWarpM % kPanelSlice == 0 && Shape::kTileM % kLoadRows == 0);
  __shared__ __align__(16) float slices_a[2][kPanelSlice + 1][LoaderA::kPitch];
  __shared__ __align__(16) float slices_b[2][kPanelSlice + 1][LoaderB::kPitch];
  const Tile tile = triangle_tile(grid, known, blockIdx.x, Shape::kTileM, Shape::kTileN);
  if (known.upper_unread && tile.first_col >= tile.first_row + Shape::kTileM) return;
  // Blocks of one multiprocessor give the rows with the longest chains to different schedulers.
  constexpr int kWarps = kPanelThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>((threadIdx.x / kWarp + blockIdx.x + blockIdx.x / 128) % kWarps);
  const int row = warp * Shape::kWarpM + Outputs::SideM::first(Shape::lane_row(lane));
  const int col = Outputs::SideN::first(Shape::lane_col(lane));
  const int64_t warp_row = tile.first_row + warp * Shape::kWarpM;
  const bool idle = warp_row >= grid.m || (known.upper_unread && tile.first_col >= warp_row + Shape::kWarpM);
  bool skips = zeros;
  Outputs out;
  for (int64_t panel = 0; panel < grid.panels;) {
    const int64_t panel_k = panel * kPanel;
    const int first_row = row_in_panel(tile.first_row, panel_k);
    const KRange all{0, static_cast<int>(least(kPanel, grid.k - panel_k))};
    const KRange block = skips ? all.part_of(known, first_row, Shape::kTileM) : all;
    const KRange own = idle    ? KRange{0, 0}
                       : skips ? all.part_of(known, first_row + warp * Shape::kWarpM, Shape::kWarpM)
                               : all;
    float left_out = 0.0f;
    out.clear();
    __syncthreads();  // readers of the panel before
    if (block.first < block.last) {
      LoaderA loader_a(a, tile.matrix, tile.first_row, panel_k + block.first);
      LoaderB loader_b(b, tile.matrix, tile.first_col, panel_k + block.first);
      const auto take_rows = [&](int k) {
        if (!skips) return;
        const int rows = k - first_row;  // that are zero if lower, from here on if upper
        constexpr int kLoads = Shape::kTileM / kLoadRows;
        const int loads = rows < 0 ? 0 : rows / kLoadRows;
        loader_a.take(known.a_lower ? loads : 0, known.a_upper && loads < kLoads ? loads + 1 : kLoads);
      };
      take_rows(block.first);
      loader_a.begin(block.last - block.first, slices_a[0]);
      loader_b.begin(block.last - block.first, slices_b[0]);
      loader_a.finish(slices_a[0]);
      loader_b.finish(slices_b[0]);
      __syncthreads();
      int buffer = 0;
      for (int k = block.first; k < block.last; k += kPanelSlice, buffer ^= 1) {
        const bool more = k + kPanelSlice < block.last;
        if (more) {  // readers of the other buffer have passed the barrier
          take_rows(k + kPanelSlice);
          loader_a.begin(block.last - k - kPanelSlice, slices_a[buffer ^ 1]);
          loader_b.begin(block.last - k - kPanelSlice, slices_b[buffer ^ 1]);
        }
        const float *from_a = &slices_a[buffer][0][row], *from_b = &slices_b[buffer][0][col];
        if (!own.holds(k)) {
          constexpr int kQuads = Shape::kTileN / 4;
          for (int i = lane; skips && i < kPanelSlice * kQuads; i += kWarp)
            left_out =
                add_zeros(left_out, *reinterpret_cast<const float4*>(&slices_b[buffer][i / kQuads][i % kQuads * 4]));
        } else if (block.last - k >= kPanelSlice) {
          out.template add_slice<LoaderA::kPitch, LoaderB::kPitch>(from_a, from_b);
        } else {
          out.template add_some<LoaderA::kPitch, LoaderB::kPitch>(from_a, from_b, block.last - k);
        }
        if (more) {
          loader_a.finish(slices_a[buffer ^ 1]);
          loader_b.finish(slices_b[buffer ^ 1]);
          __syncthreads();
        }
      }
    }
    if (skips) {
      const KRange before{0, block.first < all.last ? block.first : all.last};
      const KRange after{block.last < 0 ? 0 : block.last, all.last};
      left_out += zeros_of<b_contiguous>(b, tile.matrix, tile.first_col, Shape::kTileN, panel_k, before);
      left_out += zeros_of<b_contiguous>(b, tile.matrix, tile.first_col, Shape::kTileN, panel_k, after);
      const bool differs = left_out != 0.0f || (own.last < all.last && out.holds_minus_zero());
      if (__syncthreads_or(differs ? 1 : 0) != 0) {
        skips = false;  // in the panels that follow too
        continue;
      }
    }
    if (!idle) out.store(grid, epilogue, panel, tile.matrix, tile.first_row + row, tile.first_col + col);
    ++panel;
  }
}

}  // namespace fp4sim::gpu
