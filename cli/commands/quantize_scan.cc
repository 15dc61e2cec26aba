#include "cli/commands/quantize_scan.h"

#include <algorithm>
#include <bit>

namespace fp4sim::cli {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kNan = 0x7FC00000;

uint32_t magnitude(float v) { return std::bit_cast<uint32_t>(v) & 0x7FFFFFFFu; }

float value_of(uint32_t bits) { return std::bit_cast<float>(bits < kInfinity ? bits : kNan); }

uint32_t largest_of(const float* values, int64_t count) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) bits = std::max(bits, magnitude(values[i]));
  return bits;
}

void add_columns(const float* row, int64_t count, uint32_t* columns) {
  for (int64_t c = 0; c < count; ++c) columns[c] = std::max(columns[c], magnitude(row[c]));
}

}  // namespace

std::vector<uint32_t> amax_bits(const std::vector<float>& values, const ValueType& packed) {
  if (is_unscaled(packed.spec)) return {largest_of(values.data(), static_cast<int64_t>(values.size()))};
  const ScaleGrid grid = scale_grid(packed);
  const MatrixView m = matrix_view(packed.shape);
  std::vector<uint32_t> bits(static_cast<size_t>(grid.count()), 0);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row) {
      const float* x = values.data() + (matrix * m.rows + row) * m.cols;
      uint32_t* scales = bits.data();
      if (packed.spec.granularity != Granularity::tensor)
        scales += matrix * grid.rows * grid.cols + row / grid.row_step * grid.cols;
      if (grid.col_step == 1) {
        add_columns(x, m.cols, scales);
        continue;
      }
      for (int64_t col = 0; col < m.cols; col += grid.col_step, ++scales)
        *scales = std::max(*scales, largest_of(x + col, std::min(grid.col_step, m.cols - col)));
    }
  return bits;
}

bool QuantizeScan::is_needed(const Cut& cut) {
  if (cut.original.spec.element.bias_auto) return true;
  if (cut.pieces.size() < 2) return false;
  if (has_tensor_scale(cut.spec)) return true;
  return std::any_of(cut.pieces.begin(), cut.pieces.end(), [&](const Piece& p) { return cut.is_partial(p); });
}

void QuantizeScan::add(const Piece& piece, const std::vector<float>& operand) {
  const std::vector<uint32_t> bits = amax_bits(operand, cut_.type_of(piece));
  for (const uint32_t b : bits) tensor_ = std::max(tensor_, b);
  if (cut_.spec.element.bias_auto)
    for (const float v : operand)
      if (magnitude(v) < kInfinity) finite_ = std::max(finite_, magnitude(v));
  if (cut_.span == Span::columns && cut_.is_partial(piece)) {
    std::vector<uint32_t>& columns = columns_[piece.first_row / cut_.rows];
    columns.resize(bits.size(), 0);
    for (size_t c = 0; c < bits.size(); ++c) columns[c] = std::max(columns[c], bits[c]);
  } else if (cut_.span != Span::tensor) {
    for (const uint32_t b : bits)
      if (b < kInfinity) finite_blocks_ = std::max(finite_blocks_, b);
  }
}

std::optional<float> QuantizeScan::tensor_amax() const {
  if (!has_tensor_scale(cut_.spec) || cut_.pieces.size() < 2) return std::nullopt;
  // the one block of a whole tensor is left out where it is not finite
  uint32_t bits = cut_.span != Span::tensor ? finite_blocks_ : tensor_ < kInfinity ? tensor_ : 0;
  for (const auto& [matrix, columns] : columns_)
    for (const uint32_t b : columns)
      if (b < kInfinity) bits = std::max(bits, b);
  return std::bit_cast<float>(bits);
}

std::vector<float> QuantizeScan::summary_row(const Piece& piece) const {
  std::vector<float> row(static_cast<size_t>(cut_.cols), 0.0f);
  if (cut_.span == Span::columns) {
    const std::vector<uint32_t>& columns = columns_.at(piece.first_row / cut_.rows);
    std::transform(columns.begin(), columns.end(), row.begin(), value_of);
  } else {
    row.at(0) = cut_.spec.element.bias_auto ? finite_amax() : value_of(tensor_);
  }
  return row;
}

float QuantizeScan::finite_amax() const { return std::bit_cast<float>(finite_); }

}  // namespace fp4sim::cli
