#include "reference/scalar/operand.h"

#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/dot.h"

namespace fp4sim::scalar {

Operand::Operand(const Tensor& tensor, Axis axis)
    : tensor_(tensor), axis_(axis), view_(matrix_view(tensor.type.shape)) {}

std::vector<float> Operand::decoded() const {
  const auto n = static_cast<size_t>(element_count(tensor_.type.shape));
  std::vector<float> values(n);
  if (packed()) {
    decode_packed(tensor_, values.data());
  } else if (tensor_.type.dtype == DType::bf16) {
    for (size_t i = 0; i < n; ++i) values[i] = decode_code(in_data<uint16_t>(tensor_)[i], kBf16);
  } else {
    for (size_t i = 0; i < n; ++i) values[i] = in_data<float>(tensor_)[i];
  }
  return gather(values);
}

std::vector<float> Operand::elements() const {
  std::vector<float> values(static_cast<size_t>(element_count(tensor_.type.shape)));
  decode_elements(tensor_, values.data());
  return gather(values);
}

std::vector<int64_t> Operand::units() const {
  const int step = min_step_exponent(spec().element);
  std::vector<int64_t> units;
  for (const float value : elements()) {
    const double multiple = std::ldexp(static_cast<double>(value), -step);  // an integer
    units.push_back(std::isfinite(value) ? static_cast<int64_t>(multiple) : kNotFinite);
  }
  return units;
}

std::vector<float> Operand::scales(int64_t length) const {
  const ScaleGrid grid = scale_grid(tensor_.type);
  const bool last = axis_ == Axis::last;
  std::vector<float> scales;
  for (int64_t matrix = 0; matrix < matrices(); ++matrix) {
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t i = 0; i < k(); i += length)
        scales.push_back(scale_value(tensor_, scale_index(grid, matrix, last ? row : i, last ? i : row)));
    }
  }
  return scales;
}

float Operand::tensor_scale() const { return scalar::tensor_scale(tensor_); }

std::vector<float> Operand::gather(const std::vector<float>& values) const {
  if (axis_ == Axis::last) return values;
  std::vector<float> out;
  for (int64_t matrix = 0; matrix < matrices(); ++matrix) {
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t i = 0; i < k(); ++i)
        out.push_back(values[static_cast<size_t>((matrix * view_.rows + i) * view_.cols + row)]);
    }
  }
  return out;
}

}  // namespace fp4sim::scalar
