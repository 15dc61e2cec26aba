// Operands of a product as plain matrices in memory: decoded to what the engine packs from, and their scales.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/backend.h"
#include "reference/simd/arena.h"
#include "reference/simd/parallel.h"

namespace fp4sim::simd {

/// Sizes of an operand: `matrices` of `vectors` along the contraction axis, each of length k.
struct OperandShape {
  int64_t matrices, vectors, k;
  bool k_inner;                                            // elements of a vector are neighbours in memory (axis last)
  int64_t lines() const { return k_inner ? vectors : k; }  // rows of the stored matrix
  int64_t line_length() const { return k_inner ? k : vectors; }  // elements of a stored row
};
OperandShape operand_shape(const ValueType& type, Axis axis);

/// Elements of the engine's source type (float, or int8_t), row-major like the operand itself.
struct PlainMatrices {
  const void* data;
  int64_t stride;         // elements between rows
  int64_t matrix_stride;  // elements between matrices
};

/// The operand's values as binary32, every scale applied (§4: fl(fl(code·s)·d)). An f32 operand is not copied.
PlainMatrices decoded_operand(const Tensor& t, const OperandShape& shape, const Context& context, Arena& arena);

/// Unscaled element values as binary32. infinities = false: an Inf code becomes NaN, as the exact rules of §7 say.
PlainMatrices element_values(const Tensor& t, const OperandShape& shape, bool infinities, const Context& context,
                             Arena& arena);

/// Unscaled elements in units of the format's smallest step, plus `offset`, as bytes. Every row begins at a multiple of
/// 4 bytes and, where rows run along k, is padded to one; where k is outer, zero rows follow up to a multiple of 4.
PlainMatrices element_steps(const Tensor& t, const OperandShape& shape, int offset, const Context& context,
                            Arena& arena);

/// Scales as binary32, k outer: [matrix][block][stride], block = index along k (one for row and tensor scales).
/// Vectors up to `stride` beyond the operand's own are zero.
struct ScaleMatrices {
  float* data;
  int64_t stride, matrix_stride;
  float smallest, largest;      // magnitudes of the finite nonzero ones; 0 and 0 if there is none
  std::vector<float> distinct;  // the values that occur, for scales of one byte; empty for binary32 scales
};
ScaleMatrices operand_scales(const Tensor& t, const OperandShape& shape, Arena& arena);

/// The tensor scale d of the operand, or nullptr (§4.2).
const float* tensor_scale(const Tensor& t);

}  // namespace fp4sim::simd
