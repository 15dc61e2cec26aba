// Operands of a product in the form in which its kernels read them (numerics.md §7): decoded values, elements without
// scales, elements as int8 units, scales in binary32.
#pragma once

#include "gpu/launch.h"
#include "gpu/product.cuh"

namespace fp4sim::gpu {

/// The operand's values with all scales: f32 in place, bf16 and packed through scratch.
Operand decoded_operand(const Tensor& t, Axis axis, Context& context);

/// True if a tensor's values lie as bf16: as a tensor of bf16 or as codes of bf16 without scales.
bool holds_bf16(const Tensor& t);

/// A tensor of bf16 values in place.
Bf16Operand bf16_operand(const Tensor& t, Axis axis);

/// The sizes of an operand without its data.
Operand operand_shape(const Tensor& t, Axis axis);

/// A packed operand's elements without scales, in scratch. `nan_only`: Inf codes become NaN, as exact dots need them.
Operand element_operand(const Tensor& packed, Axis axis, bool nan_only, Context& context);

/// True for e4m3 and e5m2: bf16 has all their values.
bool elements_lie_in_bytes(const QuantSpec& spec);

/// A packed operand's elements without scales in bf16, in scratch; they must lie in bytes.
Bf16Operand bf16_elements(const Tensor& packed, Axis axis, Context& context);

/// A packed operand's scales, one for `block` k (0: one for each vector), in scratch. Rows are padded with zeros to a
/// multiple of 128.
OperandScales operand_scales(const Tensor& packed, Axis axis, int64_t block, Context& context);

/// Elements of at most 7 bits and a sign as int8 multiples of the format's smallest step: [matrix][row][k], both padded
/// with zeros, rows to a multiple of 128, k to one of kUnitSlice.
struct UnitOperand {
  const int8_t* data;
  int64_t rows, k;  // padded
};
constexpr int64_t kUnitSlice = 64;
constexpr int64_t kUnitRows = 128;

/// A packed operand as int8 units, in scratch. The format must have no specials and spans of at most 7 bits.
UnitOperand unit_operand(const Tensor& packed, Axis axis, Context& context);

}  // namespace fp4sim::gpu
