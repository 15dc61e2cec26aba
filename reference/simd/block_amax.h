// amax of the blocks of a tensor before its scales are known (numerics.md §4).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/simd/kernels_quantize.h"
#include "reference/simd/quant_layout.h"

namespace fp4sim::simd {

/// Largest magnitude bits of every block of x in the order of the stored scales; kF32Inf or more in nonfinite blocks.
/// A tensor of granularity `tensor` is one block.
std::vector<uint32_t> block_amax(const float* x, const ValueType& packed, const Context& context);

/// amax of the blocks of one tile, in the order of its scales; `amax` has room for TileLayout::kColumns.
void tile_amax(const ScaleKernels& kernels, const TileLayout& layout, const Tile& tile, const float* x, uint32_t* amax);

/// A of §4.2: the largest amax of the finite blocks.
float finite_amax(const std::vector<uint32_t>& amax);

/// The same of block_amax(x, packed), for tensors cut into runs.
float finite_block_amax(const float* x, const ValueType& packed, const Context& context);

/// The largest finite |x|, whatever else is in the tensor (`bauto`, §2).
float finite_element_amax(const float* x, int64_t n, const Context& context);

}  // namespace fp4sim::simd
