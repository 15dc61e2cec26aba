// A product's operand read in contraction order: vector i of a matrix holds the k elements that meet the other
// operand's.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::scalar {

/// Operand f32, bf16 or packed of shape (…, rows, k) for axis `last`, (…, k, rows) for `first`.
class Operand {
 public:
  Operand(const Tensor& tensor, Axis axis);

  int64_t matrices() const { return view_.matrices; }
  int64_t rows() const { return axis_ == Axis::last ? view_.rows : view_.cols; }
  int64_t k() const { return axis_ == Axis::last ? view_.cols : view_.rows; }
  bool packed() const { return tensor_.type.dtype == DType::packed; }
  const QuantSpec& spec() const { return tensor_.type.spec; }
  bool sr34() const { return packed() && spec().sr34; }

  /// The values (matrices, rows, k), decoded with all scales where packed.
  std::vector<float> decoded() const;
  /// The elements of a packed operand without scales (matrices, rows, k), in binary32 …
  std::vector<float> elements() const;
  /// … and as multiples of 2^min_step_exponent (kNotFinite for NaN and Inf), for spans of at most 53 bits.
  std::vector<int64_t> units() const;
  /// The scales of a packed operand in binary32 (matrices, rows, ceil(k / length)), one for `length` elements along k.
  std::vector<float> scales(int64_t length) const;
  float tensor_scale() const;

 private:
  /// An array in the shape's order as (matrices, rows, k).
  std::vector<float> gather(const std::vector<float>& values) const;

  const Tensor& tensor_;
  Axis axis_;
  MatrixView view_;
};

}  // namespace fp4sim::scalar
