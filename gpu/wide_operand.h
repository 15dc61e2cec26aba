// Packed operands of 4-bit codes as the bytes that warpgroup products read: int8 units, or E5M2 numbers with the
// blocks' scales inside.
#pragma once

#include "gpu/launch.h"
#include "gpu/nibbles.cuh"
#include "gpu/product.cuh"

namespace fp4sim::gpu {

constexpr int kSliceBytes = 128;   // of k in one row
constexpr int64_t kWideRows = 64;  // rows are padded with zeros to a multiple of it

/// [matrix][slice of k][row][128 bytes], 16-byte chunk c of a row at place c ^ row mod 8: any eight rows and more of a
/// slice are one piece of memory, as shared memory holds them.
struct WideOperand {
  const uint8_t* data;
  int64_t rows, slices;  // padded

  FP4SIM_HD const uint8_t* at(int64_t matrix, int64_t slice, int64_t row) const {
    return data + ((matrix * slices + slice) * rows + row) * kSliceBytes;
  }
};

struct WidePair {
  WideOperand a, b;
};

/// Both operands as int8 multiples of their formats' smallest steps, in scratch.
WidePair widen_units(const NarrowOperand& a, const NarrowOperand& b, Context& context);

/// On the device: whether some row's exponents do not fit into E5M2.
struct UnfitFlags {
  const uint8_t* data;  // one for each part of the operands; nullptr: all fit
  int64_t count;

#ifdef __CUDACC__
  /// True in all threads of the block if one is set; the whole block calls.
  __device__ bool any() const {
    int found = 0;
    if (data != nullptr)
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x) found |= data[i];
    return __syncthreads_or(found) != 0;
  }
#endif
};

/// Both operands, e2m1 with e8m0 scales for 32 k, as E5M2 numbers value·2^(scale − a power of the row), in scratch.
struct FoldedPair {
  WidePair bytes;
  OperandScales factors_a, factors_b;  // the powers of the rows, which multiply the finished product
  UnfitFlags unfit;
};
FoldedPair fold_scales(const NarrowOperand& a, const NarrowOperand& b, Context& context);

}  // namespace fp4sim::gpu
