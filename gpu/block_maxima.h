// The first half of every quantization: the largest magnitude of each scale block and of the tensor (numerics.md §4).
#pragma once

#include "gpu/packed_view.cuh"

namespace fp4sim::gpu {

/// Writes for every scale block the largest magnitude_bits of its elements: amax, or from kF32Inf on the sign of a NaN
/// or an Inf in it. Blocks without elements get 0. `maxima` has layout.blocks words.
void block_maxima(const float* x, const Layout& layout, uint32_t* maxima, Context& context);

/// Writes the largest of `count` words below kF32Inf, 0 if there is none: the tensor amax over finite blocks.
void finite_maximum(const uint32_t* words, int64_t count, uint32_t* maximum, Context& context);

/// An amax as words of which it is the largest: each block of threads that reads it reduces them again.
struct AmaxParts {
  static constexpr int kMost = 256;
  const uint32_t* words = nullptr;
  int count = 0;
};

/// The largest magnitude_bits of all elements, from kF32Inf on if one is NaN or Inf; their number is a multiple of 4.
AmaxParts whole_amax(const float* x, int64_t elements, Context& context);

/// The tensor amax over finite blocks in one pass over x. Blocks are whole and lie along rows, or run down columns;
/// rows have a multiple of 4 elements.
AmaxParts finite_amax(const float* x, const Layout& layout, Context& context);

/// Writes the bits of the amax of the elements outside of nonfinite blocks; q's scales are NaN in those, and the finite
/// elements count where q has no scales.
void scaled_amax(const float* x, const PackedView& q, uint32_t* maximum, Context& context);

}  // namespace fp4sim::gpu
