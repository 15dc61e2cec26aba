// Codes and scales of packed host values by element (numerics.md §4.4): a code is some bits of a row's bit string, a
// scale belongs to a block of elements.
#pragma once

#include <cmath>

#include "fuzz/host_value.h"

namespace fp4sim::fuzz {

/// The code of element (row, col); rows count through all matrices.
inline uint32_t get_code(const HostValue& q, int64_t row, int64_t col) {
  const int64_t row_bytes = code_row_bytes(q.type), bits = q.type.spec.element.bits;
  uint32_t code = 0;
  for (int64_t k = 0; k < bits; ++k) {
    const int64_t at = col * bits + k;
    code |= static_cast<uint32_t>(q.data<uint8_t>()[row * row_bytes + at / 8] >> (at % 8) & 1) << k;
  }
  return code;
}

inline void set_code(HostValue& q, int64_t row, int64_t col, uint32_t code) {
  const int64_t row_bytes = code_row_bytes(q.type), bits = q.type.spec.element.bits;
  for (int64_t k = 0; k < bits; ++k) {
    const int64_t at = col * bits + k;
    uint8_t& byte = q.data<uint8_t>()[row * row_bytes + at / 8];
    const auto mask = static_cast<uint8_t>(1u << (at % 8));
    byte = static_cast<uint8_t>((code >> k & 1u) != 0 ? byte | mask : byte & ~mask);
  }
}

/// Calls visit(element, row, col, scale index) for every element, row-major: each block's elements come in block order.
template <class Visit>
void for_each_element(const ValueType& packed, Visit visit) {
  const MatrixView m = matrix_view(packed.shape);
  const ScaleGrid grid = scale_grid(packed);
  const bool one_scale = grid.count() <= 1;
  for (int64_t row = 0; row < m.matrices * m.rows; ++row)
    for (int64_t col = 0; col < m.cols; ++col) {
      const int64_t matrix = row / m.rows;
      const int64_t scale =
          matrix * grid.rows * grid.cols + row % m.rows / grid.row_step * grid.cols + col / grid.col_step;
      visit(row * m.cols + col, row, col, one_scale ? 0 : scale);
    }
}

/// True if scale i of a scaled value is NaN: its block was not finite.
inline bool is_nan_scale(const HostValue& q, int64_t i) {
  const QuantSpec& spec = q.type.spec;
  if (spec.scale == ScaleFormat::fp32) return std::isnan(q.data<float>(1)[i]);
  constexpr uint32_t kE8m0NaN = 0xFF;
  return q.data<uint8_t>(1)[i] == (spec.scale == ScaleFormat::e8m0 ? kE8m0NaN : nan_code(scale_element(spec)));
}

}  // namespace fp4sim::fuzz
