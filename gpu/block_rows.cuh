// The kernel of quantization in blocks along the rows: every thread takes eight neighbours at a time with two 16-byte
// loads; the two or four lanes of a block find its amax by shuffles.
#pragma once

#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

constexpr int kBlockRowThreads = 256;
constexpr int kBlockRowItems = 2;  // groups of eight elements of one thread

/// The largest word of the 2 or 4 neighbouring lanes that share a block.
__device__ inline uint32_t block_row_max(uint32_t v, int lanes) {
  v = max(v, __shfl_xor_sync(kAllLanes, v, 1));
  if (lanes == 4) v = max(v, __shfl_xor_sync(kAllLanes, v, 2));
  return v;
}

/// Scales and codes of whole blocks that lie one after the other, each of 8·lanes elements.
template <bool two_level, class Encoder>
__global__ void __launch_bounds__(kBlockRowThreads)
    quantize_block_rows(const float* x, int64_t groups, int lanes, ScaleMaker maker, TensorPart part, Encoder unready,
                        uint8_t* codes, uint8_t* scales) {
  __shared__ float tensor[2];  // S and d
  const auto& encoder = unready.ready();
  const int lane = threadIdx.x % kWarp;
  // Backwards where A's pass has left the end of x in the caches.
  const int64_t tile = two_level ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int64_t warp = (tile * kBlockRowThreads + threadIdx.x) / kWarp, first = warp * (kWarp * kBlockRowItems) + lane;
  Eight e[kBlockRowItems] = {};
#pragma unroll
  for (int i = 0; i < kBlockRowItems; ++i)
    if (first + i * kWarp < groups) e[i] = load_eight(x + (first + i * kWarp) * kGroup);
  if (two_level) {
    if (threadIdx.x < kWarp) part.find(maker.q, tensor);
    __syncthreads();
  }
  const TensorScales t{0, two_level ? tensor[0] : 1, two_level ? tensor[1] : 1};  // A has done its work
#pragma unroll
  for (int i = 0; i < kBlockRowItems; ++i) {
    const int64_t group = first + i * kWarp;
    const uint32_t amax = block_row_max(maximum_of(e[i]), lanes);
    if (group >= groups) continue;
    const BlockScale scale = maker.make<two_level>(amax, t);
    float low[4], high[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) low[k] = e[i].v[k] * scale.factor, high[k] = e[i].v[4 + k] * scale.factor;
    const bool finite = amax < kF32Inf;
    store_eight_codes(codes, group, encoder.bits(), finite ? encoder.four(low, group * kGroup) : 0u,
                      finite ? encoder.four(high, group * kGroup + 4) : 0u);
    if (lane % lanes == 0) scales[group / lanes] = scale.code;
  }
}

/// The grid of quantize_block_rows. Host only.
inline Grid block_row_grid(int64_t groups) {
  return Context::per_block(ceil_div(groups, kBlockRowThreads * kBlockRowItems), kBlockRowThreads);
}

}  // namespace fp4sim::gpu
