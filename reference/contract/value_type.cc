#include "reference/contract/value_type.h"

#include <algorithm>

#include "reference/contract/error.h"
#include "reference/contract/fp_environment.h"

namespace fp4sim {

const char* to_string(DType d) {
  constexpr const char* kNames[] = {"f32", "bf16", "i32", "u8", "packed", "csr"};
  return kNames[static_cast<int>(d)];
}

const char* to_string(Axis a) { return a == Axis::last ? "last" : "first"; }

Axis parse_axis(const std::string& text) {
  if (text == "last") return Axis::last;
  if (text == "first") return Axis::first;
  throw UsageError("axis must be `last` or `first`, got `" + text + "`");
}

int64_t element_count(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

std::string to_string(const ValueType& type) {
  std::string text = to_string(type.dtype) + to_string(type.shape);
  if (type.dtype == DType::packed || type.dtype == DType::csr) {
    text.pop_back();
    text += "; " + to_string(type.spec) + "; " + to_string(type.axis) + ")";
  }
  return text;
}

MatrixView matrix_view(const Shape& shape) {
  if (shape.empty()) return {1, 1, 1};
  if (shape.size() == 1) return {1, 1, shape[0]};
  int64_t matrices = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) matrices *= shape[i];
  return {matrices, shape[shape.size() - 2], shape.back()};
}

VectorView vector_view(const Shape& shape, Axis axis) {
  const MatrixView m = matrix_view(shape);
  if (axis == Axis::last) return {m.matrices * m.rows, m.cols, 1};
  if (shape.size() < 2) throw Error("axis=first needs a matrix, got shape " + to_string(shape));
  return {m.matrices * m.cols, m.rows, m.cols};
}

ScaleGrid scale_grid(const ValueType& packed) {
  const MatrixView m = matrix_view(packed.shape);
  const bool last = packed.axis == Axis::last;
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t b = packed.spec.block_size;
  // Steps of at least 1 keep empty tensors free of division by zero.
  const int64_t rows = std::max<int64_t>(m.rows, 1), cols = std::max<int64_t>(m.cols, 1);
  switch (packed.spec.granularity) {
    case Granularity::none: return {0, 0, 0, 1, 1};
    case Granularity::block:
      return last ? ScaleGrid{m.matrices, m.rows, ceil_div(m.cols, b), 1, b}
                  : ScaleGrid{m.matrices, ceil_div(m.rows, b), m.cols, b, 1};
    case Granularity::tile2d: return {m.matrices, ceil_div(m.rows, b), ceil_div(m.cols, b), b, b};
    case Granularity::row:
    case Granularity::col: {
      // `row`: one scale per vector along the contraction axis; `col`: across it.
      const bool per_row = (packed.spec.granularity == Granularity::row) == last;
      return per_row ? ScaleGrid{m.matrices, m.rows, 1, 1, cols} : ScaleGrid{m.matrices, 1, m.cols, rows, 1};
    }
    case Granularity::tensor: return {1, 1, 1, m.matrices * rows, cols};
  }
  throw Error("unreachable granularity");
}

int64_t contraction_block(const QuantSpec& spec) {
  return spec.granularity == Granularity::block || spec.granularity == Granularity::tile2d ? spec.block_size : 0;
}

int64_t code_row_bytes(const ValueType& packed) {
  return (matrix_view(packed.shape).cols * packed.spec.element.bits + 7) / 8;
}

namespace {

/// Out of line, so that the products are taken after quantile_indices has set the rounding mode.
[[gnu::noinline]] QuantileIndices rounded_indices(double alpha, int64_t n) {
  const auto count = static_cast<double>(n);
  const auto lower = static_cast<int64_t>((1.0 - alpha) * count);
  const auto upper = static_cast<int64_t>(alpha * count);
  return {std::min(lower, n - 1), std::min(upper, n - 1)};
}

}  // namespace

QuantileIndices quantile_indices(double alpha, int64_t n) {
  // Sizes are planned outside of a backend's entry: under a caller's rounding down, 0.95·280 would be 265.
  const FpEnvironment environment;
  return rounded_indices(alpha, n);
}

int64_t csr_capacity(const ValueType& csr) {
  const VectorView v = vector_view(csr.shape, csr.axis);
  const bool whole = csr.spec.occ.per_tensor;
  const int64_t n = whole ? v.vectors * v.length : v.length;
  if (n == 0) return 0;
  const QuantileIndices q = quantile_indices(csr.spec.occ.alpha, n);
  return (q.lower + n - 1 - q.upper) * (whole ? 1 : v.vectors);
}

std::vector<PartLayout> part_layouts(const ValueType& type) {
  const int64_t n = element_count(type.shape);
  switch (type.dtype) {
    case DType::f32: return {{"data", DType::f32, 4 * n}};
    case DType::i32: return {{"data", DType::i32, 4 * n}};
    case DType::bf16: return {{"data", DType::bf16, 2 * n}};
    case DType::u8: return {{"data", DType::u8, n}};
    case DType::packed: {
      const MatrixView m = matrix_view(type.shape);
      std::vector<PartLayout> parts{{"codes", DType::u8, m.matrices * m.rows * code_row_bytes(type)}};
      const bool f32_scales = type.spec.scale == ScaleFormat::fp32;
      if (!is_unscaled(type.spec))
        parts.push_back(
            {"scales", f32_scales ? DType::f32 : DType::u8, scale_grid(type).count() * (f32_scales ? 4 : 1)});
      if (has_tensor_scale(type.spec)) parts.push_back({"tensor_scale", DType::f32, 4});
      if (type.spec.element.bias_auto) parts.push_back({"bias", DType::i32, 4});
      return parts;
    }
    case DType::csr: {
      const int64_t capacity = csr_capacity(type);
      const ResidualFormat r = type.spec.occ.residual;
      const DType dtype = r == ResidualFormat::e4m3 ? DType::u8 : r == ResidualFormat::bf16 ? DType::bf16 : DType::f32;
      const int64_t width = dtype == DType::u8 ? 1 : dtype == DType::bf16 ? 2 : 4;
      std::vector<PartLayout> parts{{"row_ptr", DType::u8, 8 * (vector_view(type.shape, type.axis).vectors + 1)},
                                    {"col", DType::i32, 4 * capacity},
                                    {"values", dtype, width * capacity}};
      if (r == ResidualFormat::e4m3) parts.push_back({"scale", DType::u8, 1});
      return parts;
    }
  }
  throw Error("unreachable dtype");
}

}  // namespace fp4sim
