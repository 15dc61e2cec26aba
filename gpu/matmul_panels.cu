// Register-tiled: 256 threads own a tile of 128×128 (or 64×64) outputs, 8×8 (4×4) each; slices of kSlice k go through
// two buffers of shared memory, the next one on its way in registers while one is used.
#include "gpu/arithmetic.cuh"
#include "gpu/matmul_panels.h"
#include "gpu/product_launch.h"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kSlice = 16;  // k of one buffer
static_assert(kPanel % kSlice == 0);

/// The rows of one operand that a tile needs, slice by slice. quads: float4s of a row of outputs that a thread owns.
template <int quads, bool k_contiguous>
class SliceLoader {
 public:
  static constexpr int kRows = kSide * 4 * quads;
  static constexpr int kPitch = kRows + 4;
  static constexpr int kLoads = kRows * kSlice / 4 / kThreads;

  /// The thread's loads begin at (row, k) of the slice and lie kAcross rows (k contiguous) or k apart.
  __device__ SliceLoader(const Operand& o, int64_t matrix, int64_t first_row, int64_t first_k)
      : row_(static_cast<int>(k_contiguous ? threadIdx.x / kQuads : threadIdx.x % kQuads * 4)),
        k_(static_cast<int>(k_contiguous ? threadIdx.x % kQuads * 4 : threadIdx.x / kQuads)),
        rows_left_(static_cast<int>(least(o.rows - first_row, kRows)) - row_),
        from_(o.matrix(matrix) +
              (k_contiguous ? (first_row + row_) * o.k + first_k + k_ : (first_k + k_) * o.rows + first_row + row_)),
        across_(kAcross * (k_contiguous ? o.k : o.rows)),
        advance_(kSlice * (k_contiguous ? 1 : o.rows)),
        aligned_(o.aligned()) {}

  /// Reads the thread's part of the next slice, of which `k_left` k exist; what lies outside of the operand is zero.
  __device__ void load(int64_t k_left) {
    const int left = static_cast<int>(least(k_left, kSlice)) - k_;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const float* from = from_ + i * across_;
      const bool exists = (k_contiguous ? rows_left_ : left) > i * kAcross;
      const int along = exists ? (k_contiguous ? left : rows_left_) : 0;
      if (aligned_ && along >= 4) {
        held_[i] = *reinterpret_cast<const float4*>(from);
      } else {
        held_[i] = make_float4(along > 0 ? from[0] : 0.0f, along > 1 ? from[1] : 0.0f, along > 2 ? from[2] : 0.0f,
                               along > 3 ? from[3] : 0.0f);
      }
    }
    from_ += advance_;
  }

  /// Stores what was read as [k][row].
  __device__ void store(float (*slice)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (k_contiguous) {
        const int row = row_ + i * kAcross;
        slice[k_][row] = held_[i].x, slice[k_ + 1][row] = held_[i].y;
        slice[k_ + 2][row] = held_[i].z, slice[k_ + 3][row] = held_[i].w;
      } else {
        *reinterpret_cast<float4*>(&slice[k_ + i * kAcross][row_]) = held_[i];
      }
    }
  }

 private:
  static constexpr int kQuads = (k_contiguous ? kSlice : kRows) / 4;  // float4s along the contiguous direction
  static constexpr int kAcross = kThreads / kQuads;

  int row_, k_, rows_left_;
  const float* from_;
  int64_t across_, advance_;
  bool aligned_;
  float4 held_[kLoads];
};

/// The rows (columns) of one k that a thread owns.
template <int quads>
__device__ void read_fragment(const float* row, int side, float (&fragment)[4 * quads]) {
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const float4 f = *reinterpret_cast<const float4*>(row + q * kSide * 4 + side * 4);
    fragment[4 * q] = f.x, fragment[4 * q + 1] = f.y, fragment[4 * q + 2] = f.z, fragment[4 * q + 3] = f.w;
  }
}

/// The outputs of one thread: rows 4·side + 64·quad + 0 … 3 of the tile, columns alike.
template <int quads>
struct Outputs {
  float v[4 * quads][4 * quads];

  __device__ void clear() {
#pragma unroll
    for (auto& row : v)
#pragma unroll
      for (float& e : row) e = 0.0f;
  }
  /// Adds the products of one k; `a` and `b` are its rows of the slices.
  __device__ void add(const float* a, const float* b, int side_m, int side_n) {
    float fa[4 * quads], fb[4 * quads];
    read_fragment<quads>(a, side_m, fa);
    read_fragment<quads>(b, side_n, fb);
#pragma unroll
    for (int i = 0; i < 4 * quads; ++i)
#pragma unroll
      for (int j = 0; j < 4 * quads; ++j) v[i][j] = fma32(fa[i], fb[j], v[i][j]);
  }
  __device__ static int place(int side, int i) { return i / 4 * (kSide * 4) + side * 4 + i % 4; }
};

template <int quads, bool a_contiguous, bool b_contiguous>
__global__ void __launch_bounds__(kThreads, quads == 1 ? 2 : 1)
    panels_kernel(Operand a, Operand b, TileGrid grid, Epilogue epilogue) {
  using LoaderA = SliceLoader<quads, a_contiguous>;
  using LoaderB = SliceLoader<quads, b_contiguous>;
  __shared__ __align__(16) float slices_a[2][kSlice][LoaderA::kPitch];
  __shared__ __align__(16) float slices_b[2][kSlice][LoaderB::kPitch];
  constexpr int kTile = LoaderA::kRows, kOwn = 4 * quads;
  const Tile tile = tile_at(grid, blockIdx.x, kTile, kTile);
  const int side_m = static_cast<int>(threadIdx.x) / kSide, side_n = static_cast<int>(threadIdx.x) % kSide;
  int64_t k = tile.first_panel * kPanel;
  const int64_t last_k = least(tile.last_panel * kPanel, grid.k);
  LoaderA loader_a(a, tile.matrix, tile.first_row, k);
  LoaderB loader_b(b, tile.matrix, tile.first_col, k);
  Outputs<quads> out;
  loader_a.load(last_k - k);
  loader_b.load(last_k - k);
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    out.clear();
    const int64_t end = least((panel + 1) * kPanel, last_k);
    for (int buffer = 0; k < end; k += kSlice, buffer ^= 1) {
      // The other buffer's readers have passed the barrier of the slice before; kPanel is a multiple of two slices.
      loader_a.store(slices_a[buffer]);
      loader_b.store(slices_b[buffer]);
      __syncthreads();
      if (k + kSlice < last_k) {
        loader_a.load(last_k - k - kSlice);
        loader_b.load(last_k - k - kSlice);
      }
      const float* first_a = &slices_a[buffer][0][0];
      const float* first_b = &slices_b[buffer][0][0];
      if (end - k >= kSlice) {
#pragma unroll
        for (int s = 0; s < kSlice; ++s)
          out.add(first_a + s * LoaderA::kPitch, first_b + s * LoaderB::kPitch, side_m, side_n);
      } else {  // not the zeros beyond the end: their products would turn −0 into +0
        for (int s = 0; s < static_cast<int>(end - k); ++s)
          out.add(first_a + s * LoaderA::kPitch, first_b + s * LoaderB::kPitch, side_m, side_n);
      }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
        store_panel(grid, epilogue, panel, tile.matrix, tile.first_row + Outputs<quads>::place(side_m, i),
                    tile.first_col + Outputs<quads>::place(side_n, j), out.v[i][j]);
  }
}

template <int quads>
auto kernel_for(bool a_contiguous, bool b_contiguous) {
  if (a_contiguous) return b_contiguous ? panels_kernel<quads, true, true> : panels_kernel<quads, true, false>;
  return b_contiguous ? panels_kernel<quads, false, true> : panels_kernel<quads, false, false>;
}

}  // namespace

void matmul_panels(const Operand& a, const Operand& b, const Epilogue& epilogue, float* y, Context& context) {
  const int64_t large = a.matrices * ceil_div(a.rows, 128) * ceil_div(b.rows, 128);
  const bool small = a.rows <= 64 || b.rows <= 64 || large < context.multiprocessors();
  const int tile = small ? 64 : 128;
  const TileGrid grid = tile_grid(a.matrices, a.rows, b.rows, a.k, tile, tile, y, context);
  const bool a_contiguous = a.k_stride == 1, b_contiguous = b.k_stride == 1;
  const auto kernel = small ? kernel_for<1>(a_contiguous, b_contiguous) : kernel_for<2>(a_contiguous, b_contiguous);
  context.launch(kernel, Context::per_block(grid.tiles(), kThreads), a, b, grid, epilogue);
  sum_panels(grid, epilogue, context);
}

}  // namespace fp4sim::gpu
