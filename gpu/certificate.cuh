// Which tiles of a product of blocks are sums that nothing rounds (numerics.md §7.2). Where the values of two rows are
// integers in units of their own and the product of the rows' Euclidean norms is below 2^24, every sum of a subset of
// their products is an integer below 2^24, which binary32 holds: the block rule's chain and its panels round nothing,
// and one sum of integers in any order has their bits.
#pragma once

#include "gpu/product.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

constexpr int kNormRows = 32;    // rows that share a number
constexpr int kMostBands = 256;  // of an operand
constexpr int kBandBytes = 2 * kMostBands * 4;

/// Of the product of two sums of squares: 2^48, less what rounding of the sums may hide.
constexpr float kCertifiedSquares = 0x1.ffep+47f;

/// Bounds of the rows of one operand: [matrix][range of k][kNormRows rows], each the largest sum of squares that one of
/// the rows has in the range, infinite where a row has no integers. Bands are what is certified together.
struct RowNorms {
  const float* squares;
  int64_t matrices, row_blocks, ranges;  // one matrix: of all matrices of the product
  uint32_t band_blocks, bands;           // row blocks of a band, bands of a matrix

  /// The band of a row of a matrix.
  FP4SIM_HD uint32_t band_of(int64_t row) const { return static_cast<uint32_t>(row / kNormRows) / band_blocks; }
  FP4SIM_HD int64_t first_row(uint32_t band) const { return int64_t{band} * band_blocks * kNormRows; }
};

enum class Tiles { all, certified, others };

struct Certificates {
  RowNorms a, b;
  Tiles which;  // all: without looking

  /// Matrices of the product.
  FP4SIM_HD int64_t matrices() const { return a.matrices > b.matrices ? a.matrices : b.matrices; }
};

/// The bounds of all bands in shared memory: table[kMostBands] of a, then of b.
class TileFilter {
 public:
  /// The whole block calls.
  __device__ TileFilter(const Certificates& c, float* table) : c_(c), table_(table) {
    if (c.which == Tiles::all) return;
    for (int i = static_cast<int>(threadIdx.x); i < 2 * kMostBands; i += static_cast<int>(blockDim.x)) table[i] = 0.0f;
    __syncthreads();
    fill(c.a, table);
    fill(c.b, table + kMostBands);
    __syncthreads();
  }

  /// True if the tile is one of those asked for. A tile that reaches over several bands is certified if all are.
  __device__ bool takes(const Tile& tile, int rows, int cols) const {
    if (c_.which == Tiles::all) return true;
    const bool certified = certain(largest(c_.a, table_, tile.matrix, tile.first_row, rows),
                                   largest(c_.b, table_ + kMostBands, tile.matrix, tile.first_col, cols));
    return certified == (c_.which == Tiles::certified);
  }

  /// True if every band of a is certified with every band of b. Whole warps call.
  __device__ bool all_certified() const {
    return certain(largest_of_all(c_.a, table_), largest_of_all(c_.b, table_ + kMostBands));
  }

 private:
  __device__ static float larger(float a, float b) { return a < b ? b : a; }
  __device__ static bool certain(float a, float b) { return a * b < kCertifiedSquares; }  // not so for Inf·0

  __device__ static void fill(const RowNorms& n, float* bands) {
    for (int64_t i = threadIdx.x; i < n.matrices * n.row_blocks; i += blockDim.x) {
      const int64_t matrix = quotient(i, n.row_blocks), block = i - matrix * n.row_blocks;
      const float* squares = n.squares + matrix * n.ranges * n.row_blocks + block;
      float sum = 0.0f;
#pragma unroll 8
      for (int64_t range = 0; range < n.ranges; ++range) sum += __ldcg(squares + range * n.row_blocks);
      // Numbers without sign order like their bits.
      atomicMax(reinterpret_cast<int*>(bands + matrix * n.bands + n.band_of(block * kNormRows)), __float_as_int(sum));
    }
  }

  __device__ static float largest(const RowNorms& n, const float* bands, int64_t matrix, int64_t first, int count) {
    const uint32_t end = n.band_of(first + count - 1);
    if (n.matrices > 1) bands += matrix * n.bands;
    float found = 0.0f;
    for (uint32_t band = n.band_of(first); band <= end && band < n.bands; ++band) found = larger(found, bands[band]);
    return found;
  }

  __device__ static float largest_of_all(const RowNorms& n, const float* bands) {
    float found = 0.0f;
    for (int i = static_cast<int>(threadIdx.x % kWarp); i < n.matrices * n.bands; i += kWarp)
      found = larger(found, bands[i]);
    return __uint_as_float(warp_max(__float_as_uint(found)));
  }

  const Certificates& c_;
  const float* table_;
};

}  // namespace fp4sim::gpu
