// Eight warps own a tile of 128×128 outputs, 64×32 each. Slices of 64 k come by asynchronous copies into two buffers.
// The dot of a block is one integer sum; it is promoted to binary32 and added to the output in the order of §7:
// acc = fma(dot, fl(s_a·s_b), acc), blocks ascending, panels of 1024.
#include "gpu/arithmetic.cuh"
#include "gpu/matmul_int8.h"
#include "gpu/product_launch.h"
#include "gpu/tensor_core.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 128;
constexpr int kSlice = static_cast<int>(kUnitSlice);
constexpr int kChunk = 16;                   // bytes of one copy and of a row of a matrix instruction
constexpr int kChunks = kSlice / kChunk;     // of a row of a slice
constexpr int kRowTiles = 4, kColTiles = 4;  // 16×8 outputs of one instruction, of a warp
constexpr int kWarpRows = 16 * kRowTiles, kWarpCols = 8 * kColTiles;
static_assert(kTile == kUnitRows && kPanel % (2 * kSlice) == 0);

/// 1.5·2^23: added to an integer below 2^22 as the accumulator's start, the sum's bits are those of the binary32 number
/// 1.5·2^23 + integer, which a subtraction turns into the integer; cheaper than a conversion.
constexpr int kMagicBits = 0x4B400000;
constexpr float kMagic = 12582912.0f;

/// Blocks of `block` k that a slice of 64 touches; 0 for the vector rule.
constexpr int blocks_of_slice(int block) { return block == 0 ? 0 : block >= kSlice ? 1 : kSlice / block; }

/// One slice of both operands in shared memory; 16-byte chunks of a row are permuted so that the eight rows of a matrix
/// instruction lie in different banks.
template <int block>
struct Slice {
  static constexpr int kBlocks = blocks_of_slice(block);
  int8_t a[kTile][kSlice], b[kTile][kSlice];
  float scales_a[kBlocks > 0 ? kBlocks : 1][kTile], scales_b[kBlocks > 0 ? kBlocks : 1][kTile];

  __device__ static int place(int row, int chunk) { return (chunk ^ (row >> 1 & 3)) * kChunk; }

  __device__ static void copy_units(int8_t (*to)[kSlice], const UnitOperand& u, int64_t matrix, int64_t first_row,
                                    int64_t first_k) {
    const int8_t* from = u.data + (matrix * u.rows + first_row) * u.k + first_k;
#pragma unroll
    for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * kThreads, row = item / kChunks, chunk = item % kChunks;
      copy_async16(&to[row][place(row, chunk)], from + row * u.k + chunk * kChunk);
    }
  }

  /// The scales of the blocks that exist.
  __device__ static void copy_scales(float (*to)[kTile], const OperandScales& s, int64_t matrix, int64_t first_row,
                                     int64_t first_block) {
#pragma unroll
    for (int item = static_cast<int>(threadIdx.x); item < kBlocks * kTile; item += kThreads) {
      const int row = item % kTile, number = item / kTile;
      if (first_block + number < s.blocks)
        copy_async4(&to[number][row], s.block(matrix, first_block + number) + first_row + row);
    }
  }

  __device__ void copy(const Int8Side& sa, const Int8Side& sb, const Tile& tile, int64_t k) {
    copy_units(a, sa.units, tile.matrix, tile.first_row, k);
    copy_units(b, sb.units, tile.matrix, tile.first_col, k);
    if constexpr (block != 0) {
      copy_scales(scales_a, sa.scales, tile.matrix, tile.first_row, k / block);
      copy_scales(scales_b, sb.scales, tile.matrix, tile.first_col, k / block);
    }
  }
};

/// The outputs of one lane: four of each 16×8 tile.
struct LaneOutputs {
  float acc[kRowTiles][kColTiles][4];
  int dot[kRowTiles][kColTiles][4];  // where kHoldsDots

  __device__ void clear() {
#pragma unroll
    for (auto& row : acc)
#pragma unroll
      for (auto& tile : row)
#pragma unroll
        for (float& v : tile) v = 0.0f;
  }
  __device__ void start_dots(int value) {
#pragma unroll
    for (auto& row : dot)
#pragma unroll
      for (auto& tile : row)
#pragma unroll
        for (int& v : tile) v = value;
  }
};

/// acc = fma(dot, fl(s_a·s_b), acc) for the four outputs of a lane; `unit` is 2^exponent.
__device__ void promote(const int (&dot)[4], const float* scales_a, const float* scales_b, float unit,
                        float (&acc)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float value = fma32(float_of(static_cast<uint32_t>(dot[i])), unit, -kMagic * unit);  // exact
    acc[i] = fma32(value, scales_a[i / 2 * 8] * scales_b[i % 2], acc[i]);
  }
}

/// True where the dot of a block goes on through a whole slice and longer: it is kept for each output.
template <int block>
constexpr bool kHoldsDots = block == 0 || block >= kSlice;

/// Adds a slice; `blocks` of its blocks exist (blocks as long as it and longer: 1 where it ends one, else 0).
template <int block>
__device__ void add_slice(const Slice<block>& s, int row0, int col0, int blocks, float unit, LaneOutputs& out) {
  constexpr int kHalf = 32, kHalfBlocks = block == 16 ? 2 : 1;  // k of one instruction, blocks in them
  const int lane = static_cast<int>(threadIdx.x % kWarp), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < kSlice / kHalf; ++half) {
    uint32_t b[kColTiles][2];
#pragma unroll
    for (int pair = 0; pair < kColTiles / 2; ++pair) {
      uint32_t r[4];
      const int row = col0 + 16 * pair + lane / 16 * 8 + lane % 8;
      load_matrices(r, &s.b[row][s.place(row, 2 * half + lane / 8 % 2)]);
      b[2 * pair][0] = r[0], b[2 * pair][1] = r[1], b[2 * pair + 1][0] = r[2], b[2 * pair + 1][1] = r[3];
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      uint32_t a[4];
      const int a_row = row0 + 16 * m + lane % 16, row = row0 + 16 * m + g;
      load_matrices(a, &s.a[a_row][s.place(a_row, 2 * half + lane / 16)]);
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
        if constexpr (kHoldsDots<block>) {
          multiply_k32(out.dot[m][n], a, b[n][0], b[n][1]);
        } else {
#pragma unroll
          for (int in_half = 0; in_half < kHalfBlocks; ++in_half) {
            const int number = half * kHalfBlocks + in_half, col = col0 + 8 * n + 2 * t;
            if (number >= blocks) break;
            int dot[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
            if constexpr (block == 16) {
              multiply_k16(dot, a[2 * in_half], a[2 * in_half + 1], b[n][in_half]);
            } else {
              multiply_k32(dot, a, b[n][0], b[n][1]);
            }
            promote(dot, &s.scales_a[number][row], &s.scales_b[number][col], unit, out.acc[m][n]);
          }
        }
      }
    }
  }
  if constexpr (kHoldsDots<block> && block != 0) {
    if (blocks == 0) return;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int n = 0; n < kColTiles; ++n)
        promote(out.dot[m][n], &s.scales_a[0][row0 + 16 * m + g], &s.scales_b[0][col0 + 8 * n + 2 * t], unit,
                out.acc[m][n]);
  }
}

/// How many blocks are to be promoted after the slice at k: those of it that exist; of longer blocks the one it ends.
template <int block>
__device__ int blocks_to_promote(int64_t k, int64_t end_k) {
  if constexpr (block == 0) {
    return 0;
  } else if constexpr (kHoldsDots<block>) {
    return (k + kSlice) % block == 0 || k + kSlice >= end_k ? 1 : 0;
  } else {
    return static_cast<int>(least((end_k - k + block - 1) / block, Slice<block>::kBlocks));
  }
}

/// Two blocks of threads share a multiprocessor, where 128 registers of a thread suffice.
template <int block>
__global__ void __launch_bounds__(kThreads, block == 0 || !kHoldsDots<block> ? 2 : 1)
    int8_kernel(Int8Side a, Int8Side b, TileGrid grid, float unit, Epilogue epilogue) {
  __shared__ __align__(16) Slice<block> slices[2];
  const Tile tile = tile_at(grid, blockIdx.x, kTile, kTile);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int row0 = warp / 4 * kWarpRows, col0 = warp % 4 * kWarpCols;
  const int64_t panel_k = block == 0 ? grid.k : kPanel, last_k = least(tile.last_panel * panel_k, grid.k);
  LaneOutputs out;
  int64_t k = tile.first_panel * panel_k;
  slices[0].copy(a, b, tile, k);
  commit_copies();
  int buffer = 0;
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    out.clear();
    out.start_dots(block == 0 ? 0 : kMagicBits);
    const int64_t end_k = least((panel + 1) * panel_k, last_k);
    for (; k < end_k; k += kSlice, buffer ^= 1) {
      if (k + kSlice < last_k) slices[buffer ^ 1].copy(a, b, tile, k + kSlice);
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      const int blocks = blocks_to_promote<block>(k, end_k);
      add_slice<block>(slices[buffer], row0, col0, blocks, unit, out);
      if (kHoldsDots<block> && blocks > 0) out.start_dots(kMagicBits);
      __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int n = 0; n < kColTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t row = tile.first_row + row0 + 16 * m + lane / 4 + i / 2 * 8;
          const int64_t col = tile.first_col + col0 + 8 * n + lane % 4 * 2 + i % 2;
          const float v = block == 0 ? static_cast<float>(out.dot[m][n][i]) * unit : out.acc[m][n][i];
          store_panel(grid, epilogue, panel, tile.matrix, row, col, v);
        }
  }
}

}  // namespace

bool int8_takes(const ElementFormat& a, const ElementFormat& b, int64_t n) {
  const int bits_a = significand_span_bits(a), bits_b = significand_span_bits(b);
  const int exponent = min_step_exponent(a) + min_step_exponent(b);
  const bool values = a.specials == Specials::none && b.specials == Specials::none;
  // Units below 2^bits: n of their products stay below 2^30, and times 2^exponent binary32 holds them as they are.
  return values && bits_a <= 7 && bits_b <= 7 && n < (int64_t{1} << (30 - bits_a - bits_b)) && exponent >= -100 &&
         exponent <= 60;
}

void matmul_int8(const Int8Side& a, const Int8Side& b, const ProductShape& shape, int64_t block, int exponent,
                 const Epilogue& epilogue, float* y, Context& context) {
  const auto kernel = block == 0    ? int8_kernel<0>
                      : block == 16 ? int8_kernel<16>
                      : block == 32 ? int8_kernel<32>
                      : block == 64 ? int8_kernel<64>
                                    : int8_kernel<128>;
  TileGrid grid{shape.matrices,           shape.m, shape.n, shape.k, ceil_div(shape.m, kTile),
                ceil_div(shape.n, kTile), 1,       false,   y,       nullptr};
  if (block != 0) grid = tile_grid(shape.matrices, shape.m, shape.n, shape.k, kTile, kTile, y, context);
  context.launch(kernel, Context::per_block(grid.tiles(), kThreads), a, b, grid, pow2_f32(exponent), epilogue);
  sum_panels(grid, epilogue, context);
}

}  // namespace fp4sim::gpu
