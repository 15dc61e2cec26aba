// Products of fp16 numbers on the warpgroup instructions of compute capability 9.0 (numerics.md §7).
#pragma once

#include "gpu/matmul_int8.h"
#include "gpu/wide_halves.h"

namespace fp4sim::gpu {

/// Writes y by the block rule for blocks of 16. The epilogue's vector scales must be empty.
void multiply_halves(const HalvesPair& pair, const ProductShape& shape, const Epilogue& epilogue, float* y,
                     Context& context);

}  // namespace fp4sim::gpu
