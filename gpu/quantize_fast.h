// Quantizations of one or two fused passes, by format and shape. Each gives the bits of the general kernels of
// ops_quantize.cu.
#pragma once

#include "gpu/block_maxima.h"
#include "gpu/packed_view.cuh"
#include "gpu/philox.cuh"

namespace fp4sim::gpu {

/// What the fused kernels need of a node.
struct QuantizeCall {
  const float* x;
  PackedView q;  // the outputs' addresses
  RandomSource source;
  AmaxParts tensor_amax;    // bits of A, for specs with a tensor scale; their S and d are found and d is stored
  const float* given_amax;  // instead of it where the caller gave A
};

/// The index of the element 0 of a node that quantizes in the logical global tensor; 0 for deterministic rounding.
uint64_t first_element_of(const NodeCall& call);

/// The random bits of such a node; none for deterministic rounding.
RandomSource random_source_of(const NodeCall& call);

/// Where the codes and the scale of a tensor go: to one or two packed values of the same bits; nullptr: no second.
struct PackedCopies {
  uint8_t* codes[2];
  float* scales[2];
};

/// True if a fused kernel of block scales takes the spec and the shape: elements of at most 8 bits along the last axis,
/// rne or sr32, whole blocks of 16 or 32, e8m0 (but opt) or the e4m3 profile te. `first_element`: the index of the
/// tensor's element 0 in the logical global tensor.
bool fused_blocks_take(const ValueType& packed, uint64_t first_element);

/// Scales and codes of a tensor that fused_blocks_take, in one pass over x.
void fused_blocks(const QuantizeCall& call, Context& context);

/// True if the fused kernel takes the spec and the shape: the formats of fused_blocks_take of 4, 6 or 8 bits along the
/// first axis, rows of a multiple of 8 elements.
bool fused_columns_take(const ValueType& packed, uint64_t first_element);

/// Scales and codes of a tensor that fused_columns_take, in one pass over x.
void fused_columns(const QuantizeCall& call, Context& context);

/// True if a fused kernel of vector scales takes the spec and the shape: one binary32 scale for each row or each
/// column; formats of 4, 6 or 8 bits, rne; rows of a multiple of 8 elements.
bool fused_vectors_take(const ValueType& packed);

/// Scales and codes of a tensor that fused_vectors_take.
void fused_vectors(const QuantizeCall& call, Context& context);

/// True if the fused kernels of one binary32 scale take the spec and the shape: formats of at most 8 bits, rne; rows of
/// a multiple of 8 elements.
bool fused_tensor_takes(const ValueType& packed);

/// Scale and codes of a tensor that fused_tensor_takes, along either axis.
void fused_tensor(const QuantizeCall& call, const PackedCopies& copies, Context& context);

/// True if the fused kernel takes the spec and the shape: no scale, formats of 16 bits, rne, rows of a multiple of 8.
bool fused_wide_take(const ValueType& packed);

/// Codes of a tensor that fused_wide_take, in one pass over x.
void fused_wide(const QuantizeCall& call, const PackedCopies& copies, Context& context);

/// True if the fused kernel decodes the tensor: formats of 4, 6, 8 or 16 bits, rows of a multiple of 8 elements.
bool fused_dequantize_takes(const ValueType& packed);

/// Decoded values of a tensor that fused_dequantize_takes.
void fused_dequantize(const PackedView& q, float* x, Context& context);

}  // namespace fp4sim::gpu
