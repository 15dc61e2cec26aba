// How large the sums of a product of blocks may become before binary32 rounds them (numerics.md §7.2). Where all
// products of two rows are multiples of a power of two u, sums of them below 2^24·u are exact, in any order. The kernel
// looks at its sums after every second part of kPartK k. By Cauchy and Schwarz, nothing that is summed on the way
// between two looks is further than
//   B = the rows' largest Euclidean norms over a part, multiplied
// from the nearer of them: what is summed up in the first part from the look before it; what is reached in the second
// from the look behind it, since all that is left to add is at most B. So if all looks have seen less than 2^24·u − B,
// every sum between them, of the rule and of the tensor cores, was exact; and if the first to be inexact had reached
// 2^24·u or more, the look behind it, whose error is some units of the last place, would have seen it.
#pragma once

#include "gpu/certificate.cuh"

namespace fp4sim::gpu {

constexpr int kPartK = 32;

/// What is known of the values of one operand, by kNormRows rows and a range of k.
struct ValueBounds {
  RowNorms norms;      // the largest sum of squares of a part of a row; infinite if one of the rows has a NaN
  const float* units;  // powers of two, laid out as the norms: all values are multiples
};

/// The limits of a product's tiles, from tables in shared memory: by bands of rows the largest squares of a and of b,
/// and the smallest units of both.
class SumLimits {
 public:
  static constexpr int kBands = kMostBands / 2;  // four tables instead of the TileFilter's two

  /// The whole block of threads calls; the table has kBandBytes.
  __device__ SumLimits(const ValueBounds& a, const ValueBounds& b, float* table) : a_(a), b_(b), table_(table) {
    const int threads = static_cast<int>(blockDim.x);
    for (int i = static_cast<int>(threadIdx.x); i < 4 * kBands; i += threads) table[i] = i < kUnits ? 0.0f : kMostUnit;
    __syncthreads();
    fill(a, table);
    fill(b, table + kBands);
    __syncthreads();
  }

  /// What the sums of some rows and columns may reach, at most, where the kernel looks; negative or NaN: nothing.
  __device__ float of(int64_t matrix, int64_t row, int rows, int64_t col, int cols) const {
    const Found found = find(matrix, row, rows, col, cols);
    return found.most - found.bound;
  }

  /// True for the tiles whose sums are likely to stay below their limit: those of normally distributed values grow to
  /// about B in a panel of 1024 k.
  __device__ bool takes(const Tile& tile, int rows, int cols) const {
    const Found found = find(tile.matrix, tile.first_row, rows, tile.first_col, cols);
    return found.most > 2.0f * found.bound;
  }

 private:
  static constexpr int kUnits = 2 * kBands;  // where the tables of units begin
  static_assert(4 * kBands * sizeof(float) == kBandBytes);
  static constexpr float kMostUnit = 0x1p4f;  // of e4m3 times e2m1
  // 2^24 less what errors hide: of norms, and of a look that follows an inexact sum.
  static constexpr float kMostUnits = 0x1.ffep+23f, kNormError = 0x1.001p+0f;

  struct Found {
    float most, bound;  // 2^24·u and B
  };

  __device__ Found find(int64_t matrix, int64_t row, int rows, int64_t col, int cols) const {
    float squares_a = 0.0f, squares_b = 0.0f, unit_a = kMostUnit, unit_b = kMostUnit;
    look_up(a_.norms, table_, matrix, row, rows, squares_a, unit_a);
    look_up(b_.norms, table_ + kBands, matrix, col, cols, squares_b, unit_b);
    return {kMostUnits * (unit_a * unit_b), kNormError * (sqrtf(squares_a) * sqrtf(squares_b))};
  }

  __device__ static void look_up(const RowNorms& n, const float* squares, int64_t matrix, int64_t first, int count,
                                 float& most, float& unit) {
    const uint32_t end = n.band_of(first + count - 1);
    if (n.matrices > 1) squares += matrix * n.bands;
    for (uint32_t band = n.band_of(first); band <= end && band < n.bands; ++band) {
      most = fmaxf(most, squares[band]);
      unit = fminf(unit, squares[kUnits + band]);
    }
  }

  __device__ static void fill(const ValueBounds& v, float* squares) {
    const RowNorms& n = v.norms;
    for (int64_t i = threadIdx.x; i < n.matrices * n.row_blocks; i += blockDim.x) {
      const int64_t matrix = quotient(i, n.row_blocks), block = i - matrix * n.row_blocks;
      const int64_t first = matrix * n.ranges * n.row_blocks + block;
      float most = 0.0f, unit = kMostUnit;
#pragma unroll 4
      for (int64_t range = 0; range < n.ranges; ++range) {
        most = fmaxf(most, __ldcg(n.squares + first + range * n.row_blocks));
        unit = fminf(unit, __ldcg(v.units + first + range * n.row_blocks));
      }
      // Numbers without sign order like their bits.
      float* band = squares + matrix * n.bands + n.band_of(block * kNormRows);
      atomicMax(reinterpret_cast<int*>(band), __float_as_int(most));
      atomicMin(reinterpret_cast<int*>(band + kUnits), __float_as_int(unit));
    }
  }

  const ValueBounds& a_;
  const ValueBounds& b_;
  const float* table_;
};

}  // namespace fp4sim::gpu
