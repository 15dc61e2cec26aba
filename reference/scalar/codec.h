// One value to one code and back (numerics.md §2, §3): exact integer arithmetic on the bits, generic over the row.
// Blocks and scales are in scale.h and quantize.h.
#pragma once

#include <cstdint>

#include "reference/contract/backend.h"
#include "reference/contract/element_format.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::scalar {

/// The code of the real number y: rounded on the format's grid continued without a largest exponent, then the policy.
/// y is exact: binary64 holds every binary32 number and x·2^-s for every e8m0 scale. `random` is used by sr32 (all 32
/// bits) and sr8 (the low 8). NaN gives the canonical NaN, or +max_normal where the format has none. `ieee` = policy
/// `ieee` instead of `saturate`; the format must have specials then.
uint32_t encode_value(double y, const ElementFormat& format, Rounding rounding, bool ieee, uint32_t random = 0);

/// The value of a code, exact in binary32 for every format; every NaN code gives the canonical NaN.
float decode_code(uint32_t code, const ElementFormat& format);

/// The grid value number `index`, ascending in index: −max_normal_code(f) … +max_normal_code(f); 0 is zero.
double grid_value(int64_t index, const ElementFormat& format);

/// Code `index` of a row of codes: a little-endian bit string (§4.4), `bits` in 1 … 32.
uint32_t load_code(const uint8_t* row, int64_t index, int bits);
/// Writes one code of a row; the other codes' bits stay.
void store_code(uint8_t* row, int64_t index, int bits, uint32_t code);

/// The value of a one-byte scale code (e8m0, e4m3, ue; §2 scale formats), exact in binary32.
float decode_scale(uint8_t code, const QuantSpec& spec);

/// Scale number `index` of a packed tensor in scale-grid order as a binary32 value; 1 for unscaled specs.
float scale_value(const Tensor& packed, int64_t index);

/// The tensor scale d of a packed tensor; 1 where the spec has none.
float tensor_scale(const Tensor& packed);

/// Index into the scale grid of element (matrix, row, col).
int64_t scale_index(const ScaleGrid& grid, int64_t matrix, int64_t row, int64_t col);

/// The row of codes number matrix·rows + row of a packed tensor.
const uint8_t* code_row(const Tensor& packed, int64_t row);

/// Decodes a whole packed tensor: out[i] = fl(fl(code·scale)·d) in the row-major order of its shape.
void decode_packed(const Tensor& packed, float* out);

/// Decodes the elements alone, without any scale (the operands of the exact products, §7).
void decode_elements(const Tensor& packed, float* out);

}  // namespace fp4sim::scalar
