// A tile of outputs of the fp32 rule in one block of threads: 4 warps of 8×4 lanes, each lane owns some rows × columns,
// one fma chain each. Slices of k go through two buffers of shared memory, the next one on its way while one is used.
#pragma once

#include "gpu/panel_loader.cuh"

namespace fp4sim::gpu {

constexpr int kPanelLanesM = 8, kPanelLanesN = 4;  // lanes of a warp along the rows and the columns of its outputs
constexpr int kPanelWarpsM = 2, kPanelWarpsN = 2;
static_assert(kPanelThreads == 32 * kPanelWarpsM * kPanelWarpsN && kPanel % (2 * kPanelSlice) == 0);

/// Outputs of one thread, of the block's tile, and blocks that share a multiprocessor.
template <int own_rows, int own_cols, int blocks>
struct PanelShape {
  static constexpr int kOwnM = own_rows, kOwnN = own_cols, kBlocks = blocks;
  static constexpr int kTileM = own_rows * kPanelLanesM * kPanelWarpsM;
  static constexpr int kTileN = own_cols * kPanelLanesN * kPanelWarpsN;
};

/// Where the values of a lane along one side lie in a warp's part of a slice: vectors of kVector neighbours.
template <int own, int lanes>
struct PanelSide {
  static constexpr int kVector = own % 4 == 0 ? 4 : 2;

  static __device__ int first(int lane) { return lane * kVector; }
  static __device__ constexpr int place(int i) { return i / kVector * (lanes * kVector) + i % kVector; }
  /// Reads the lane's values; `from` points at its first.
  static __device__ void read(const float* from, float (&values)[own]) {
#pragma unroll
    for (int i = 0; i < own; i += kVector) {
      if constexpr (kVector == 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + place(i));
        values[i] = v.x, values[i + 1] = v.y, values[i + 2] = v.z, values[i + 3] = v.w;
      } else {
        const float2 v = *reinterpret_cast<const float2*>(from + place(i));
        values[i] = v.x, values[i + 1] = v.y;
      }
    }
  }
};

/// The factors of finished outputs from (row, col) on, four outputs at once. What a product has not got is 1, which
/// keeps every value: no branches.
struct PanelFactors {
  const float *rows, *cols;  // scales of vectors; nullptr: none
  float d_a, d_b, last;

  __device__ PanelFactors(const Epilogue& e, int64_t matrix, int64_t row, int64_t col)
      : rows(e.scales_a.data == nullptr ? nullptr : e.scales_a.block(matrix, 0) + row),
        cols(e.scales_a.data == nullptr ? nullptr : e.scales_b.block(matrix, 0) + col),
        d_a(e.d_a == nullptr ? 1.0f : *e.d_a),
        d_b(e.d_b == nullptr ? 1.0f : *e.d_b),
        last(e.factor) {}

  __device__ float of_row(int row) const { return rows == nullptr ? 1.0f : rows[row]; }
  __device__ float finished(float v, float scale) const { return v * scale * d_a * d_b * last; }
  __device__ void apply(float4& v, float row_scale, int col) const {
    float4 scales = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    if (cols != nullptr) scales = *reinterpret_cast<const float4*>(cols + col);
    v = make_float4(finished(v.x, row_scale * scales.x), finished(v.y, row_scale * scales.y),
                    finished(v.z, row_scale * scales.z), finished(v.w, row_scale * scales.w));
  }
};

/// The outputs of one thread.
template <class Shape>
struct PanelOutputs {
  using SideM = PanelSide<Shape::kOwnM, kPanelLanesM>;
  using SideN = PanelSide<Shape::kOwnN, kPanelLanesN>;
  float v[Shape::kOwnM][Shape::kOwnN];

  __device__ void clear() {
#pragma unroll
    for (auto& row : v)
#pragma unroll
      for (float& e : row) e = 0.0f;
  }
  __device__ void add(const float (&a)[Shape::kOwnM], const float (&b)[Shape::kOwnN]) {
#pragma unroll
    for (int i = 0; i < Shape::kOwnM; ++i)
#pragma unroll
      for (int j = 0; j < Shape::kOwnN; ++j) v[i][j] = fma32(a[i], b[j], v[i][j]);
  }

  /// Adds the products of a whole slice; `a` and `b` point at the lane's first values. The values of the next k are
  /// read before they are needed; the last read goes one k beyond the slice, which the buffers have room for.
  template <int pitch_a, int pitch_b>
  __device__ void add_slice(const float* a, const float* b) {
    constexpr int kOutputs = Shape::kOwnM * Shape::kOwnN;
    constexpr int kUnroll = kOutputs > 64 ? 4 : kOutputs > 32 ? 8 : 16;  // about 512 products: the first cache of code
    float fa[2][Shape::kOwnM], fb[2][Shape::kOwnN];
    SideM::read(a, fa[0]);
    SideN::read(b, fb[0]);
#pragma unroll 1
    for (int round = 0; round < kPanelSlice / kUnroll; ++round, a += kUnroll * pitch_a, b += kUnroll * pitch_b)
#pragma unroll
      for (int s = 0; s < kUnroll; ++s) {
        SideM::read(a + (s + 1) * pitch_a, fa[(s + 1) % 2]);
        SideN::read(b + (s + 1) * pitch_b, fb[(s + 1) % 2]);
        add(fa[s % 2], fb[s % 2]);
      }
  }
  /// The same for the first `count` k of a slice: the zeros after them would turn −0 into +0.
  template <int pitch_a, int pitch_b>
  __device__ void add_some(const float* a, const float* b, int count) {
#pragma unroll 1
    for (int s = 0; s < count; ++s) {
      float fa[Shape::kOwnM], fb[Shape::kOwnN];
      SideM::read(a + s * pitch_a, fa);
      SideN::read(b + s * pitch_b, fb);
      add(fa, fb);
    }
  }

  /// Stores the outputs of a panel as store_panel does; the first lies at (row, col). Rows whose quads are aligned take
  /// one access for four. The first panel is added to −0, which keeps every value: so the sums get registers of their
  /// own, and the order that vectors need does not put outputs and operands into the same banks of registers.
  __device__ void store(const TileGrid& g, const Epilogue& epilogue, int64_t panel, int64_t matrix, int64_t row,
                        int64_t col) const {
    const bool sum = !g.split && panel > 0, vectors = g.n % 4 == 0;
    const bool finish = !g.split && panel == g.panels - 1 && !epilogue.empty();
    const int rows_left = static_cast<int>(least(g.m - row, Shape::kTileM));
    const int cols_left = static_cast<int>(least(g.n - col, Shape::kTileN));
    const PanelFactors factors(epilogue, matrix, row, col);
    float* first = (g.split ? g.partial + panel * g.matrices * g.m * g.n : g.y) + (matrix * g.m + row) * g.n + col;
#pragma unroll
    for (int i = 0; i < Shape::kOwnM; ++i) {
      if (SideM::place(i) >= rows_left) continue;
      float* line = first + SideM::place(i) * g.n;
      const float scale = finish ? factors.of_row(SideM::place(i)) : 1.0f;
#pragma unroll
      for (int j = 0; j < Shape::kOwnN; j += 4) {
        float* to = line + SideN::place(j);
        const int left = cols_left - SideN::place(j);
        if (!vectors) {
#pragma unroll
          for (int c = 0; c < 4; ++c)
            if (c < left) to[c] = (sum ? to[c] : -0.0f) + v[i][j + c];
        } else if (left > 0) {
          float4 total = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
          if (sum) total = *reinterpret_cast<const float4*>(to);
          total.x += v[i][j], total.y += v[i][j + 1], total.z += v[i][j + 2], total.w += v[i][j + 3];
          if (finish) factors.apply(total, scale, SideN::place(j));
          *reinterpret_cast<float4*>(to) = total;
        }
      }
    }
    if (vectors || !finish) return;
      // From memory: outputs in registers would be needed one by one in a loop that must be unrolled.
#pragma unroll 1
    for (int i = 0; i < Shape::kOwnM; ++i)
#pragma unroll 1
      for (int j = 0; j < Shape::kOwnN; ++j) {
        const int r = SideM::place(i), c = SideN::place(j);
        if (r < rows_left && c < cols_left) first[r * g.n + c] = epilogue(first[r * g.n + c], matrix, row + r, col + c);
      }
  }
};

template <class T, class Shape, bool a_contiguous, bool b_contiguous>
__global__ void __launch_bounds__(kPanelThreads, Shape::kBlocks)
    panels_kernel(RowsOf<T> a, RowsOf<T> b, TileGrid grid, Epilogue epilogue) {
  using LoaderA = SliceLoader<T, Shape::kTileM, a_contiguous>;
  using LoaderB = SliceLoader<T, Shape::kTileN, b_contiguous>;
  using Outputs = PanelOutputs<Shape>;
  __shared__ __align__(16) float slices_a[2][kPanelSlice + 1][LoaderA::kPitch];
  __shared__ __align__(16) float slices_b[2][kPanelSlice + 1][LoaderB::kPitch];
  const Tile tile = tile_at(grid, blockIdx.x, Shape::kTileM, Shape::kTileN);
  // Every eight lanes name two rows and four columns: the fewest passes of 16-byte loads.
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / kPanelWarpsN * (Shape::kTileM / kPanelWarpsM) + Outputs::SideM::first(lane / 8 * 2 + lane % 2);
  const int col = warp % kPanelWarpsN * (Shape::kTileN / kPanelWarpsN) + Outputs::SideN::first(lane / 2 % 4);
  int64_t k = tile.first_panel * kPanel;
  const int64_t last_k = least(tile.last_panel * kPanel, grid.k);
  LoaderA loader_a(a, tile.matrix, tile.first_row, k);
  LoaderB loader_b(b, tile.matrix, tile.first_col, k);
  Outputs out;
  loader_a.begin(last_k - k, slices_a[0]);
  loader_b.begin(last_k - k, slices_b[0]);
  loader_a.finish(slices_a[0]);
  loader_b.finish(slices_b[0]);
  __syncthreads();
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    out.clear();
    const int64_t end = least((panel + 1) * kPanel, last_k);
    for (int buffer = 0; k < end; k += kPanelSlice, buffer ^= 1) {  // a panel is an even number of slices
      const bool more = k + kPanelSlice < last_k;
      if (more) {  // readers of the other buffer have passed the barrier
        loader_a.begin(last_k - k - kPanelSlice, slices_a[buffer ^ 1]);
        loader_b.begin(last_k - k - kPanelSlice, slices_b[buffer ^ 1]);
      }
      const float *from_a = &slices_a[buffer][0][row], *from_b = &slices_b[buffer][0][col];
      if (end - k >= kPanelSlice) {
        out.template add_slice<LoaderA::kPitch, LoaderB::kPitch>(from_a, from_b);
      } else {
        out.template add_some<LoaderA::kPitch, LoaderB::kPitch>(from_a, from_b, static_cast<int>(end - k));
      }
      if (more) {
        loader_a.finish(slices_a[buffer ^ 1]);
        loader_b.finish(slices_b[buffer ^ 1]);
        __syncthreads();
      }
    }
    out.store(grid, epilogue, panel, tile.matrix, tile.first_row + row, tile.first_col + col);
  }
}

}  // namespace fp4sim::gpu
