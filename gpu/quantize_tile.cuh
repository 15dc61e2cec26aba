// A tile of 32 rows and 32 columns that the registers of one warp hold, quantized in blocks along its rows, down its
// columns, or both. Lane l has four columns from 4·(l mod 8) on of eight rows from 8·(l / 8) on. Lanes share out the
// maxima of their blocks, so that each makes two scales of either kind.
#pragma once

#include <type_traits>

#include "gpu/fused.cuh"
#include "gpu/fused_encoders.cuh"
#include "gpu/map.cuh"

namespace fp4sim::gpu {

constexpr int kTileSide = 32;
constexpr int kLaneRows = 8;                       // rows of a lane
constexpr int kLanesAcross = kTileSide / kVector;  // lanes of one row
constexpr int kWholeBlock = 32, kHalfBlock = 16;   // elements of a scale block
constexpr int kScalesOfLane = 2;

/// The elements of a lane.
struct LaneTile {
  Four row[kLaneRows];
};

/// Where the codes and the scales of a packed value go.
struct PackedTarget {
  uint8_t* codes = nullptr;  // nullptr: it is not made
  uint8_t* scales = nullptr;
};

/// Where a lane's elements lie in the tensor.
struct TilePlace {
  int64_t element;       // the first one's index
  int cols;              // elements of a row
  int rows;              // of its rows that exist; 0 beyond the last column
  int64_t row_scale;     // index of the first row's scale, in blocks along the rows,
  int row_scales;        // scales of a row
  int64_t column_scale;  // index of the first column's scale, in blocks down the columns; −1: no such block
};

/// Of N magnitudes a lane keeps the larger ones, its own or those of the lane `mask` away: the upper half or the lower.
template <int N>
__device__ inline void share_out(const float (&v)[N], int mask, float (&kept)[N / 2]) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(mask)) != 0;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const float mine = upper ? v[i + N / 2] : v[i], given = upper ? v[i] : v[i + N / 2];
    kept[i] = larger_magnitude(mine, __shfl_xor_sync(kAllLanes, given, mask));
  }
}

/// The magnitudes of whole blocks of 32 from those of their halves, `mask` lanes apart.
__device__ inline void join_halves(float (&v)[kScalesOfLane], int mask) {
#pragma unroll
  for (float& m : v) m = larger_magnitude(m, __shfl_xor_sync(kAllLanes, m, mask));
}

/// What a scale's factor is multiplied by before an encoder takes it: e2m1's takes halves.
template <class Encoder>
constexpr float kFactorUnit = 1.0f;
template <>
constexpr float kFactorUnit<E2m1Nearest> = 0.5f;

/// A lane's scales and their factors: NaN for nonfinite blocks.
template <class Encoder>
__device__ inline void make_scales(const float (&magnitude)[kScalesOfLane], const ScaleMaker& maker,
                                   uint32_t (&code)[kScalesOfLane], float (&factor)[kScalesOfLane]) {
  const uint32_t nonfinite = nonfinite_scale(maker.q);
#pragma unroll
  for (int i = 0; i < kScalesOfLane; ++i) {
    const uint32_t amax = magnitude_bits(magnitude[i]);
    const bool finite = amax < kF32Inf;
    BlockScale scale;
    if (maker.quick)
      scale = maker.quick_scale(amax);
    else
      scale = maker.make<false>(amax, TensorScales{});
    code[i] = finite ? scale.code : nonfinite;
    factor[i] = finite ? scale.factor * kFactorUnit<Encoder> : canonical_nan();
  }
}

/// Ones in the codes whose factor is a number.
__device__ inline uint32_t finite_mask(const float (&factor)[kVector], int bits) {
  uint32_t mask = 0;
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    if (factor[k] == factor[k]) mask |= ((1u << bits) - 1u) << (k * bits);
  return mask;
}

/// Encoders whose code is long and seldom wanted: one copy of it.
template <class Encoder>
constexpr bool kCalled = !std::is_same_v<Encoder, Fp8Nearest<true>> && !std::is_same_v<Encoder, Fp8Nearest<false>> &&
                         !std::is_same_v<Encoder, Fp6Nearest<true>> && !std::is_same_v<Encoder, Fp6Nearest<false>>;
template <class Encoder>
__device__ __noinline__ uint32_t called_four(float4 y, int64_t i, const Encoder& encoder) {
  const float v[kVector] = {y.x, y.y, y.z, y.w};
  return encoder.four(v, i);
}

/// The codes of four elements times their factors, from element i of the tensor on; +0 where `finite` has no ones.
template <class Encoder>
__device__ inline uint32_t tile_codes(const Four& e, const float (&factor)[kVector], uint32_t finite, int64_t i,
                                      const Encoder& encoder) {
  float y[kVector];
#pragma unroll
  for (int k = 0; k < kVector; ++k) y[k] = e.v[k] * factor[k];
  if constexpr (kCalled<Encoder>)
    return called_four(make_float4(y[0], y[1], y[2], y[3]), i, encoder) & finite;
  else
    return encoder.four(y, i) & finite;
}

/// The same for e2m1: the factors are halves of powers of two, so that the clamped parts of half of y (e2m1.cuh) are
/// single fused operations on the element; a NaN among them is clamped to 0.
__device__ inline uint32_t tile_codes(const Four& e, const float (&half)[kVector], uint32_t finite, int64_t,
                                      const E2m1Nearest&) {
  uint32_t word[kVector];
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float a = fabsf(e.v[k]);
    const float to_two = fma32(saturated(a * half[k]), 4.0f, 0x1p23f);
    const float to_four = fma32(saturated(fma32(a, half[k], -1.0f)), 2.0f, to_two);
    word[k] = bits_of(to_four + saturated(fma32(a, half[k], -2.0f)));
  }
  return (e2m1_string(word) | e2m1_signs(e.v)) & finite;
}

/// Quantizes the tile to the targets that exist. `block`: 16 or 32 elements; `last`, `first`: along the rows, down the
/// columns. The whole warp calls it; elements that do not exist are zeros.
template <bool kLast, bool kFirst, class Encoder>
__device__ inline void quantize_tile(const LaneTile& tile, const TilePlace& at, int block, const ScaleMaker& maker,
                                     const Encoder& last_encoder, const PackedTarget& last,
                                     const Encoder& first_encoder, const PackedTarget& first) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float row_factor[kLaneRows], column_factor[kVector];
  if constexpr (kLast) {
    float all[kLaneRows], four[kLaneRows / 2], two[kScalesOfLane], factor[kScalesOfLane];
    uint32_t code[kScalesOfLane];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      all[r] = 0;
#pragma unroll
      for (int k = 0; k < kVector; ++k) all[r] = larger_magnitude(all[r], tile.row[r].v[k]);
    }
    share_out(all, 1, four);
    share_out(four, 2, two);
    if (block == kWholeBlock) join_halves(two, 4);
    const int mine = (lane & 1) * 4 + (lane & 2);  // the first of this lane's two rows
    make_scales<Encoder>(two, maker, code, factor);
#pragma unroll
    for (int i = 0; i < kScalesOfLane; ++i)
      if (mine + i < at.rows && (block == kHalfBlock || (lane & 4) == 0))
        last.scales[at.row_scale + (mine + i) * at.row_scales] = static_cast<uint8_t>(code[i]);
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
      row_factor[r] = __shfl_sync(kAllLanes, factor[r % 2], (lane & ~3) | r / 4 | (r & 2));
  }
  if constexpr (kFirst) {
    float all[kVector] = {}, two[kScalesOfLane], factor[kScalesOfLane];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
#pragma unroll
      for (int k = 0; k < kVector; ++k) all[k] = larger_magnitude(all[k], tile.row[r].v[k]);
    share_out(all, 8, two);
    if (block == kWholeBlock) join_halves(two, 16);
    const int mine = (lane & 8) / 4;  // the first of this lane's two columns
    uint32_t code[kScalesOfLane];
    make_scales<Encoder>(two, maker, code, factor);
    if (at.column_scale >= 0 && (block == kHalfBlock || (lane & 16) == 0))
      *reinterpret_cast<uint16_t*>(first.scales + at.column_scale + mine) =
          static_cast<uint16_t>(code[0] | code[1] << 8);
#pragma unroll
    for (int k = 0; k < kVector; ++k) column_factor[k] = __shfl_sync(kAllLanes, factor[k % 2], (lane & ~8) | k / 2 * 8);
  }
  const int bits = last_encoder.bits();
  const uint32_t finite_columns = kFirst ? finite_mask(column_factor, bits) : 0;
  const int64_t from = (at.element >> 2) * (bits / 2);  // bytes of the codes of fours
  const int stride = (at.cols >> 2) * (bits / 2);
  uint8_t *last_codes = last.codes + from, *first_codes = first.codes + from;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const int64_t i = at.element + int64_t{r} * at.cols;
    if constexpr (kLast) {
      const float factor[kVector] = {row_factor[r], row_factor[r], row_factor[r], row_factor[r]};
      const uint32_t finite = row_factor[r] == row_factor[r] ? ~0u : 0u;
      const uint32_t codes = tile_codes(tile.row[r], factor, finite, i, last_encoder);
      if (r < at.rows) put_four_codes(last_codes, bits, codes);
      last_codes += stride;
    }
    if constexpr (kFirst) {
      const uint32_t codes = tile_codes(tile.row[r], column_factor, finite_columns, i, first_encoder);
      if (r < at.rows) put_four_codes(first_codes, bits, codes);
      first_codes += stride;
    }
  }
}

}  // namespace fp4sim::gpu
