// Eight warps own a tile of 128×64 outputs, 32×32 each, on the binary64 tensor cores; slices of 16 k are widened to
// binary64 in shared memory, the next one on its way in registers while one is used.
#include "gpu/arithmetic.cuh"
#include "gpu/matmul_f64.h"
#include "gpu/product_launch.h"
#include "gpu/tensor_core.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kTileM = 128, kTileN = 64;
constexpr int kSlice = 16;
constexpr int kStep = 8;              // k of one instruction
constexpr int kOwnM = 2, kOwnN = 4;   // instructions of a warp along each side, of 16×8 outputs
constexpr int kWarpSide = 8 * kOwnN;  // rows and columns of a warp
constexpr int kWarpsN = kTileN / kWarpSide;
static_assert(kPanel % kSlice == 0 && kWarpSide == 16 * kOwnM);

/// kSlice k of `rows` rows of one operand: read to registers, stored as [k][row]. The pitch keeps the lanes of half a
/// warp, four k of four rows, in different banks; stores of half a warp go to 16 rows of one k.
template <int rows>
class SliceLoader {
 public:
  static constexpr int kPitch = rows + 4;
  static constexpr int kLoads = rows * kSlice / kThreads;

  /// k contiguous: the thread's elements are 4 k of a row, then of the row kAcross further. Else one row, and each next
  /// element lies kDown k further.
  __device__ SliceLoader(const Operand& o, int64_t matrix, int64_t first_row, int64_t first_k)
      : k_contiguous_(o.k_stride == 1),
        row_(static_cast<int>(k_contiguous_ ? threadIdx.x % 16 + threadIdx.x / kAcross * 16 : threadIdx.x % rows)),
        k_(static_cast<int>(k_contiguous_ ? threadIdx.x / 16 % 4 * 4 : threadIdx.x / rows)),
        rows_left_(static_cast<int>(least(o.rows - first_row, rows)) - row_),
        vectors_(o.aligned()),
        from_(o.matrix(matrix) + (first_row + row_) * o.row_stride + (first_k + k_) * o.k_stride),
        stride_(k_contiguous_ ? o.row_stride : o.k_stride) {}

  /// Reads the thread's part of the next slice, of which `k_left` k exist; what lies outside of the operand is zero.
  __device__ void load(int64_t k_left) {
    const int left = static_cast<int>(least(k_left, kSlice)) - k_;
    if (k_contiguous_) {
#pragma unroll
      for (int i = 0; i < kLoads; i += 4) load_quad(i, i / 4 * kAcross < rows_left_ ? left : 0);
      from_ += kSlice;
    } else {
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        held_[i] = 0 < rows_left_ && i * kDown < left ? from_[i * kDown * stride_] : 0.0f;
      from_ += kSlice * stride_;
    }
  }

  __device__ void store(double (*to)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      double* place = k_contiguous_ ? &to[k_ + i % 4][row_ + i / 4 * kAcross] : &to[k_ + i * kDown][row_];
      *place = static_cast<double>(held_[i]);
    }
  }

 private:
  static constexpr int kAcross = kThreads / 4;
  static constexpr int kDown = kThreads / rows;

  __device__ void load_quad(int i, int count) {
    const float* at = from_ + i / 4 * kAcross * stride_;
    if (vectors_ && count >= 4) {
      const float4 v = *reinterpret_cast<const float4*>(at);
      held_[i] = v.x, held_[i + 1] = v.y, held_[i + 2] = v.z, held_[i + 3] = v.w;
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) held_[i + c] = c < count ? at[c] : 0.0f;
    }
  }

  bool k_contiguous_;
  int row_, k_, rows_left_;
  bool vectors_;
  const float* from_;
  int64_t stride_;
  float held_[kLoads];
};

/// The outputs of one lane: of each 16×8 tile columns 2t, 2t + 1 of row g, then of row g + 8; g = lane / 4, t = lane
/// mod 4.
struct LaneOutputs {
  double dot[kOwnM][kOwnN][4];
  float acc[kOwnM][kOwnN][4];

  static __device__ constexpr int row(int m, int i) { return 16 * m + 8 * (i / 2); }
  static __device__ constexpr int col(int n, int i) { return 8 * n + i % 2; }

  /// f(m, n, i) for each of them.
  template <class F>
  static __device__ void each(const F& f) {
#pragma unroll
    for (int m = 0; m < kOwnM; ++m)
#pragma unroll
      for (int n = 0; n < kOwnN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) f(m, n, i);
  }
  __device__ void clear_dots() {
    each([&](int m, int n, int i) { dot[m][n][i] = 0.0; });
  }
  __device__ void clear() {
    each([&](int m, int n, int i) { acc[m][n][i] = 0.0f; });
  }
};

/// acc = fma(dot rounded once, fl(s_a·s_b), acc), then empty dots. Rows beyond the operand have scales too: zeros.
__device__ void promote(const float* scales_a, const float* scales_b, LaneOutputs& out) {
  LaneOutputs::each([&](int m, int n, int i) {
    const float scale = scales_a[LaneOutputs::row(m, i)] * scales_b[LaneOutputs::col(n, i)];
    out.acc[m][n][i] = fma32(static_cast<float>(out.dot[m][n][i]), scale, out.acc[m][n][i]);
  });
  out.clear_dots();
}

/// `blocked`: dots of `block` k that are promoted; else one dot over all of k, and no scales.
template <bool blocked>
__global__ void __launch_bounds__(kThreads, blocked ? 1 : 2)
    f64_kernel(Operand a, Operand b, OperandScales scales_a, OperandScales scales_b, int64_t block, TileGrid grid,
               Epilogue epilogue) {
  __shared__ double slice_a[kSlice][SliceLoader<kTileM>::kPitch], slice_b[kSlice][SliceLoader<kTileN>::kPitch];
  const Tile tile = tile_at(grid, blockIdx.x, kTileM, kTileN);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const int row0 = warp / kWarpsN * kWarpSide, col0 = warp % kWarpsN * kWarpSide;
  const int64_t panel_k = blocked ? kPanel : grid.k, last_k = least(tile.last_panel * panel_k, grid.k);
  int64_t k = tile.first_panel * panel_k;
  SliceLoader<kTileM> next_a(a, tile.matrix, tile.first_row, k);
  SliceLoader<kTileN> next_b(b, tile.matrix, tile.first_col, k);
  LaneOutputs out;
  out.clear_dots();
  next_a.load(last_k - k);
  next_b.load(last_k - k);
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    if (blocked) out.clear();
    const int64_t end = least((panel + 1) * panel_k, last_k);
    for (; k < end; k += kSlice) {
      __syncthreads();
      next_a.store(slice_a);
      next_b.store(slice_b);
      __syncthreads();
      if (k + kSlice < last_k) {
        next_a.load(last_k - k - kSlice);
        next_b.load(last_k - k - kSlice);
      }
#pragma unroll
      for (int s = 0; s < kSlice; s += kStep) {
        double fa[kOwnM][4], fb[kOwnN][2];
#pragma unroll
        for (int m = 0; m < kOwnM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) fa[m][i] = slice_a[s + t + 4 * (i / 2)][row0 + 16 * m + 8 * (i % 2) + g];
#pragma unroll
        for (int n = 0; n < kOwnN; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) fb[n][i] = slice_b[s + t + 4 * i][col0 + 8 * n + g];
#pragma unroll
        for (int m = 0; m < kOwnM; ++m)
#pragma unroll
          for (int n = 0; n < kOwnN; ++n) multiply_f64(out.dot[m][n], fa[m], fb[n]);
      }
      const int64_t through = k + kSlice;
      if (blocked && (through % block == 0 || through >= end))
        promote(scales_a.block(tile.matrix, quotient(k, block)) + tile.first_row + row0 + g,
                scales_b.block(tile.matrix, quotient(k, block)) + tile.first_col + col0 + 2 * t, out);
    }
    LaneOutputs::each([&](int m, int n, int i) {
      const float v = blocked ? out.acc[m][n][i] : static_cast<float>(out.dot[m][n][i]);
      store_panel(grid, epilogue, panel, tile.matrix, tile.first_row + row0 + LaneOutputs::row(m, i) + g,
                  tile.first_col + col0 + LaneOutputs::col(n, i) + 2 * t, v);
    });
  }
}

}  // namespace

void matmul_f64(const Operand& a, const Operand& b, const OperandScales& scales_a, const OperandScales& scales_b,
                int64_t block, const Epilogue& epilogue, float* y, Context& context) {
  TileGrid grid{a.matrices, a.rows, b.rows, a.k,    ceil_div(a.rows, kTileM), ceil_div(b.rows, kTileN),
                1,          false,  y,      nullptr};
  if (block != 0) grid = tile_grid(a.matrices, a.rows, b.rows, a.k, kTileM, kTileN, y, context);
  context.launch(block == 0 ? f64_kernel<false> : f64_kernel<true>, Context::per_block(grid.tiles(), kThreads), a, b,
                 scales_a, scales_b, block, grid, epilogue);
  sum_panels(grid, epilogue, context);
}

}  // namespace fp4sim::gpu
