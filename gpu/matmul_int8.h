// Products whose elements are int8 multiples of a step: exact dots on the int8 tensor cores (numerics.md §7).
#pragma once

#include "gpu/launch.h"
#include "gpu/operand.h"
#include "reference/contract/element_format.h"

namespace fp4sim::gpu {

/// True if the products of these formats fit: units of at most 7 bits and a sign, dots of n products below 2^31,
/// results that binary32 holds without underflow.
bool int8_takes(const ElementFormat& a, const ElementFormat& b, int64_t n);

struct Int8Side {
  UnitOperand units;
  OperandScales scales;  // of the blocks; unused by the vector rule
};

struct ProductShape {
  int64_t matrices, m, n, k;
};

/// Writes y (matrices, m, n) by the block rule with blocks of 16, 32, 64 or 128, or (block 0) by the vector rule, whose
/// scales the epilogue multiplies. A unit of the dots is 2^exponent.
void matmul_int8(const Int8Side& a, const Int8Side& b, const ProductShape& shape, int64_t block, int exponent,
                 const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
