// Quantizations of one fused pass, by format and shape. Each gives the bits of the general kernels of ops_quantize.cu.
#pragma once

#include "gpu/packed_view.cuh"

namespace fp4sim::gpu {

/// What the fused kernels need of a node; `tensor` is read by specs with a tensor scale and holds their S and d.
struct QuantizeCall {
  const float* x;
  PackedView q;  // the outputs' addresses
  const TensorScales* tensor;
};

/// True if a fused kernel of block scales takes the spec and the shape: e2m1 along the last axis, rne, whole blocks of
/// 16 or 32, e8m0 (but opt) or the e4m3 profile te.
bool fused_blocks_take(const ValueType& packed);

/// Scales and codes of a tensor that fused_blocks_take, in one pass over x.
void fused_blocks(const QuantizeCall& call, Context& context);

/// The tensor amax over finite blocks of a tensor that fused_blocks_take, in one pass over x.
void fused_tensor_amax(const float* x, const Layout& layout, uint32_t* maximum, Context& context);

/// True if the fused kernel takes the spec and the shape: the formats of fused_blocks_take along the first axis, rows
/// of a multiple of 8 elements.
bool fused_columns_take(const ValueType& packed);

/// Scales and codes of a tensor that fused_columns_take; x is read twice, the second time from the caches.
void fused_columns(const QuantizeCall& call, Context& context);

/// True if the fused kernel of row scales takes the spec and the shape: e2m1, one binary32 scale for each row, rne,
/// rows of a multiple of 8 elements.
bool fused_rows_take(const ValueType& packed);

/// Scales and codes of a tensor that fused_rows_take.
void fused_rows(const QuantizeCall& call, Context& context);

}  // namespace fp4sim::gpu
