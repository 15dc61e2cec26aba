// A tile of outputs of the fp32 rule in one block of threads: 4 warps, each lane owns some rows × columns, one fma
// chain each. Slices of k go through two buffers of shared memory, the next one on its way while one is used.
#pragma once

#include "gpu/panel_loader.cuh"

namespace fp4sim::gpu {

static_assert(kPanel % (2 * kPanelSlice) == 0);

/// Outputs of one thread, blocks that share a multiprocessor, lanes of a warp and warps of a block along the rows.
template <int own_rows, int own_cols, int blocks, int lanes_m = 8, int warps_m = 2>
struct PanelShape {
  static constexpr int kOwnM = own_rows, kOwnN = own_cols, kBlocks = blocks;
  static constexpr int kLanesM = lanes_m, kLanesN = kWarp / lanes_m;
  static constexpr int kWarpsN = kPanelThreads / kWarp / warps_m;
  static constexpr int kWarpM = own_rows * kLanesM, kWarpN = own_cols * kLanesN;  // outputs of a warp
  static constexpr int kTileM = kWarpM * warps_m, kTileN = kWarpN * kWarpsN;

  // Every eight lanes name two rows and four columns: the fewest passes of 16-byte loads.
  static __device__ int lane_row(int lane) { return lane / 8 % (kLanesM / 2) * 2 + lane % 2; }
  static __device__ int lane_col(int lane) { return lane / 8 / (kLanesM / 2) * 4 + lane / 2 % 4; }
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

/// The value, of which the compiler knows nothing: what depends on it is computed here, not kept from before a loop.
inline __device__ int64_t known_from_here(int64_t v) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(v));
#endif
  return v;
}

/// The factors and the bias of finished outputs from (row, col) on, four outputs at once. A factor that a product has
/// not got is 1, a bias −0, which keep every value: no branches.
struct PanelFactors {
  const float *rows, *cols, *bias;  // scales of vectors, bias; nullptr: none
  float d_a, d_b, last;

  __device__ PanelFactors(const Epilogue& e, int64_t matrix, int64_t row, int64_t col)
      : rows(e.scales_a.data == nullptr ? nullptr : e.scales_a.block(matrix, 0) + row),
        cols(e.scales_a.data == nullptr ? nullptr : e.scales_b.block(matrix, 0) + col),
        bias(e.bias == nullptr ? nullptr : e.bias + col),
        d_a(e.d_a == nullptr ? 1.0f : *e.d_a),
        d_b(e.d_b == nullptr ? 1.0f : *e.d_b),
        last(e.factor) {}

  __device__ float of_row(int row) const { return rows == nullptr ? 1.0f : rows[row]; }
  __device__ float finished(float v, float scale, int col) const {
    return v * scale * d_a * d_b * last + (bias == nullptr ? -0.0f : bias[col]);
  }
  __device__ void apply(float4& v, float row_scale, int col) const {
    float4 scales = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    if (cols != nullptr) scales = *reinterpret_cast<const float4*>(cols + col);
    v = make_float4(finished(v.x, row_scale * scales.x, col), finished(v.y, row_scale * scales.y, col + 1),
                    finished(v.z, row_scale * scales.z, col + 2), finished(v.w, row_scale * scales.w, col + 3));
  }
};

/// The outputs of one thread.
template <class Shape>
struct PanelOutputs {
  using SideM = PanelSide<Shape::kOwnM, Shape::kLanesM>;
  using SideN = PanelSide<Shape::kOwnN, Shape::kLanesN>;
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

  /// True if one of the values is −0: adding +0 would change it.
  __device__ bool holds_minus_zero() const {
    bool any = false;
#pragma unroll
    for (const auto& row : v)
#pragma unroll
      for (const float e : row) any |= bits_of(e) == kF32SignBit;
    return any;
  }

  /// Stores the outputs of a panel as store_panel does; the first lies at (row, col). Rows whose quads are aligned take
  /// one access for four. The first panel is added to −0, which keeps every value: so the sums get registers of their
  /// own, and the order that vectors need does not put outputs and operands into the same banks of registers.
  __device__ void store(const TileGrid& g, const Epilogue& epilogue, int64_t panel, int64_t matrix, int64_t row,
                        int64_t col) const {
    matrix = known_from_here(matrix), row = known_from_here(row), col = known_from_here(col);
    const bool sum = !g.split && panel > 0, vectors = g.n % 4 == 0, plain = g.split || epilogue.places.plain;
    const bool finish = !g.split && panel == g.panels - 1 && !epilogue.empty();
    const int rows_left = static_cast<int>(least(g.m - row, Shape::kTileM));
    const int cols_left = static_cast<int>(least(g.n - col, Shape::kTileN));
    const PanelFactors factors(epilogue, matrix, row, col);
    float* const y = g.split ? g.partial + (panel * g.matrices + matrix) * g.m * g.n
                             : g.y + epilogue.places.of_matrix(matrix, g.m, g.n);
    int64_t columns[Shape::kOwnN / 4];  // where the quads lie in a row
#pragma unroll
    for (int j = 0; j < Shape::kOwnN; j += 4) {
      const int64_t c = col + SideN::place(j);
      columns[j / 4] = plain ? c : epilogue.places.of_col(c);
    }
#pragma unroll
    for (int i = 0; i < Shape::kOwnM; ++i) {
      if (SideM::place(i) >= rows_left) continue;
      const int64_t r = row + SideM::place(i);
      float* const line = y + (plain ? r * g.n : epilogue.places.of_row(r, g.n));
      const float scale = finish ? factors.of_row(SideM::place(i)) : 1.0f;
#pragma unroll
      for (int j = 0; j < Shape::kOwnN; j += 4) {
        float* to = line + columns[j / 4];
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
      // From memory: outputs in registers would be needed one by one in a loop that must be unrolled. Columns that are
      // no quads lie at plain places.
#pragma unroll 1
    for (int i = 0; i < Shape::kOwnM; ++i)
#pragma unroll 1
      for (int j = 0; j < Shape::kOwnN; ++j) {
        const int r = SideM::place(i), c = SideN::place(j);
        if (r >= rows_left || c >= cols_left) continue;
        float* to = y + (row + r) * g.n + col + c;
        *to = epilogue(*to, matrix, row + r, col + c);
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
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp / Shape::kWarpsN * Shape::kWarpM + Outputs::SideM::first(Shape::lane_row(lane));
  const int col = warp % Shape::kWarpsN * Shape::kWarpN + Outputs::SideN::first(Shape::lane_col(lane));
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
