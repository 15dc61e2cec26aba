// Steps of a warp of 32 lanes. Every lane takes part in every step.
#pragma once

#include <cstdint>

namespace fp4sim::gpu {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kWarp = 32;

/// The number of this thread in a one-dimensional grid.
__device__ inline int64_t thread_number() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

/// The largest (smallest) of the lanes' words, in every lane.
__device__ inline uint32_t warp_max(uint32_t v) { return __reduce_max_sync(kAllLanes, v); }
__device__ inline uint32_t warp_min(uint32_t v) { return __reduce_min_sync(kAllLanes, v); }

/// Number of lanes below this one whose flag is set.
__device__ inline int set_below(unsigned ballot) { return __popc(ballot & ((1u << (threadIdx.x % kWarp)) - 1u)); }

}  // namespace fp4sim::gpu
