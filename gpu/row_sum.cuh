// Sums of rows by one warp in the specified order (numerics.md §7): 32 lanes, a halving tree, chunks of 4096 elements.
// All 32 lanes of a warp call these together with the same n.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/warp.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {

static_assert(kLanes == kWarp);

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x % kWarp); }

/// Index of this warp in the grid.
__device__ inline int64_t warp_index() { return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; }

/// Lane i + lane i+h for h = 16, 8, 4, 2, 1; every lane gets the sum.
__device__ inline float sum_of_lanes(float v) {
#pragma unroll
  for (int h = kWarp / 2; h > 0; h /= 2) v = v + __shfl_down_sync(kAllLanes, v, h);
  return __shfl_sync(kAllLanes, v, 0);
}

/// max_of in one instruction: NaN wins, and +0 is above −0.
__device__ inline float greater_of(float a, float b) {
#ifdef __CUDA_ARCH__
  float v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
#else
  return max_of(a, b);
#endif
}

__device__ inline float max_of_lanes(float v) {
#pragma unroll
  for (int h = kWarp / 2; h > 0; h /= 2) v = greater_of(v, __shfl_xor_sync(kAllLanes, v, h));
  return v;
}

/// Σ of elements [first, last), at most 4096: fold(acc, i) takes element i into this lane's sum.
template <class Fold>
__device__ float sum_of_chunk(int64_t first, int64_t last, const Fold& fold) {
  float acc = 0.0f;
#pragma unroll 8
  for (int64_t i = first + lane_index(); i < last; i += kWarp) acc = fold(acc, i);
  return sum_of_lanes(acc);
}

/// Σ of a row of n ≤ 4096³ elements, in every lane. Results of chunks are a row again: lane c mod 32 adds the result of
/// chunk c as it comes, and so do the results of 4096 chunks. One level more than needed adds +0: the same bits.
template <class Fold>
__device__ float sum_of_row(int64_t n, const Fold& fold) {
  if (n <= kRowChunk) return sum_of_chunk(0, n, fold);
  const int64_t chunks = (n + kRowChunk - 1) / kRowChunk;
  float of_chunks = 0.0f, of_groups = 0.0f;  // this lane's sums; a group is 4096 chunks
  for (int64_t c = 0; c < chunks; ++c) {
    const float chunk = sum_of_chunk(c * kRowChunk, least(n, (c + 1) * kRowChunk), fold);
    if (c % kWarp == lane_index()) of_chunks = of_chunks + chunk;
    if (c % kRowChunk == kRowChunk - 1 || c == chunks - 1) {
      const float group = sum_of_lanes(of_chunks);
      of_chunks = 0.0f;
      if (c / kRowChunk % kWarp == lane_index()) of_groups = of_groups + group;
    }
  }
  return sum_of_lanes(of_groups);
}

/// The maximum of n ≥ 1 elements get(i), in every lane.
template <class Get>
__device__ float max_of_row(int64_t n, const Get& get) {
  float mx = get(lane_index() < n ? lane_index() : 0);
  for (int64_t i = lane_index() + kWarp; i < n; i += kWarp) mx = greater_of(mx, get(i));
  return max_of_lanes(mx);
}

}  // namespace fp4sim::gpu
