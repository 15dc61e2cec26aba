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

  __device__ SliceLoader(const Operand& o, int64_t matrix, int64_t first_row)
      : data_(o.matrix(matrix)), rows_(o.rows), k_(o.k), first_row_(first_row), aligned_(o.aligned()) {}

  /// Reads the thread's part of the slice from first_k; what lies outside of the operand is zero.
  __device__ void load(int64_t first_k) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t row = first_row_ + row_of(i), k = first_k + k_of(i);
      const int64_t along = k_contiguous ? k : row, along_end = k_contiguous ? k_ : rows_;
      const float* from = data_ + (k_contiguous ? row * k_ + k : k * rows_ + row);
      const bool across = k_contiguous ? row < rows_ : k < k_;
      if (across && aligned_ && along + 4 <= along_end) {
        held_[i] = *reinterpret_cast<const float4*>(from);
      } else {
        float v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] = across && along + j < along_end ? from[j] : 0.0f;
        held_[i] = make_float4(v[0], v[1], v[2], v[3]);
      }
    }
  }

  /// Stores what was read as [k][row].
  __device__ void store(float (*slice)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = row_of(i), k = k_of(i);
      if (k_contiguous) {
        slice[k][row] = held_[i].x, slice[k + 1][row] = held_[i].y;
        slice[k + 2][row] = held_[i].z, slice[k + 3][row] = held_[i].w;
      } else {
        *reinterpret_cast<float4*>(&slice[k][row]) = held_[i];
      }
    }
  }

 private:
  /// Row in the tile and k in the slice of the first element of load i.
  __device__ static int row_of(int i) {
    const int item = static_cast<int>(threadIdx.x) + i * kThreads;
    return k_contiguous ? item / (kSlice / 4) : item % (kRows / 4) * 4;
  }
  __device__ static int k_of(int i) {
    const int item = static_cast<int>(threadIdx.x) + i * kThreads;
    return k_contiguous ? item % (kSlice / 4) * 4 : item / (kRows / 4);
  }

  const float* data_;
  int64_t rows_, k_, first_row_;
  bool aligned_;
  float4 held_[kLoads];
};

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
  __device__ static int place(int side, int i) { return i / 4 * (kSide * 4) + side * 4 + i % 4; }
};

template <int quads>
__device__ void read_fragment(const float* row, int side, float (&fragment)[4 * quads]) {
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const float4 f = *reinterpret_cast<const float4*>(row + q * kSide * 4 + side * 4);
    fragment[4 * q] = f.x, fragment[4 * q + 1] = f.y, fragment[4 * q + 2] = f.z, fragment[4 * q + 3] = f.w;
  }
}

template <int quads, bool a_contiguous, bool b_contiguous>
__global__ void __launch_bounds__(kThreads) panels_kernel(Operand a, Operand b, TileGrid grid, Epilogue epilogue) {
  using LoaderA = SliceLoader<quads, a_contiguous>;
  using LoaderB = SliceLoader<quads, b_contiguous>;
  __shared__ __align__(16) float slices_a[2][kSlice][LoaderA::kPitch];
  __shared__ __align__(16) float slices_b[2][kSlice][LoaderB::kPitch];
  constexpr int kTile = LoaderA::kRows, kOwn = 4 * quads;
  const Tile tile = tile_at(grid, blockIdx.x, kTile, kTile);
  const int side_m = static_cast<int>(threadIdx.x) / kSide, side_n = static_cast<int>(threadIdx.x) % kSide;
  LoaderA loader_a(a, tile.matrix, tile.first_row);
  LoaderB loader_b(b, tile.matrix, tile.first_col);
  Outputs<quads> out;
  const int64_t last_k = least(tile.last_panel * kPanel, grid.k);
  int64_t k = tile.first_panel * kPanel;
  loader_a.load(k);
  loader_b.load(k);
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    out.clear();
    const int64_t end = least((panel + 1) * kPanel, last_k);
    for (int buffer = 0; k < end; k += kSlice, buffer ^= 1) {
      // The other buffer's readers have passed the barrier of the slice before; kPanel is a multiple of two slices.
      loader_a.store(slices_a[buffer]);
      loader_b.store(slices_b[buffer]);
      __syncthreads();
      if (k + kSlice < last_k) {
        loader_a.load(k + kSlice);
        loader_b.load(k + kSlice);
      }
      const int valid = static_cast<int>(least(kSlice, end - k));
#pragma unroll
      for (int s = 0; s < kSlice; ++s) {
        if (s >= valid) break;  // a product of zeros would turn −0 into +0
        float fa[kOwn], fb[kOwn];
        read_fragment<quads>(slices_a[buffer][s], side_m, fa);
        read_fragment<quads>(slices_b[buffer][s], side_n, fb);
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j) out.v[i][j] = fma32(fa[i], fb[j], out.v[i][j]);
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
