// FP4SIM_HD marks a function that nvcc must also compile for the device (std::bit_cast and plain
// constexpr functions are host-only there).
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FP4SIM_HD __host__ __device__ inline
#else
#define FP4SIM_HD inline
#endif

namespace fp4sim {

constexpr uint32_t kF32SignBit = 0x80000000u;
constexpr uint32_t kF32MagnitudeMask = 0x7FFFFFFFu;
constexpr uint32_t kF32Inf = 0x7F800000u;
constexpr uint32_t kF32CanonicalNaN = 0x7FC00000u;  // numerics.md §1
constexpr uint32_t kF32Max = 0x7F7FFFFFu;

}  // namespace fp4sim
