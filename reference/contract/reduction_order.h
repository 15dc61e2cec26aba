// The order of every sum (numerics.md §7). Constants only.
#pragma once

#include <cstdint>

namespace fp4sim {

inline constexpr int kLanes = 32;           // row reductions: lane l takes elements l, l+32, …
inline constexpr int64_t kRowChunk = 4096;  // longer rows: chunks of 4096, results reduced by the same rule
inline constexpr int64_t kPanel = 1024;     // sums over k of a product, column sums: panels of 1024

// Hadamard signs `fixed16` (§6): bit j set means sign −1 of element j mod 16: + + + − + − − − − − − + − + − −
inline constexpr uint32_t kHadamardFixedSigns = 0xD7E8u;

}  // namespace fp4sim
