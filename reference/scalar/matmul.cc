// matmul (numerics.md §7): the rule follows from the two operands' specs alone.
#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/dot.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/operand.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {
namespace {

enum class ProductRule { decoded, blocks, vectors };

bool one_scale_per_vector(const QuantSpec& spec) {
  return spec.granularity == Granularity::row || spec.granularity == Granularity::tensor;
}

ProductRule rule_of(const Operand& a, const Operand& b) {
  if (!a.packed() || !b.packed()) return ProductRule::decoded;
  const int64_t block = contraction_block(a.spec());
  if (block != 0 && block == contraction_block(b.spec())) return ProductRule::blocks;
  if (one_scale_per_vector(a.spec()) && one_scale_per_vector(b.spec())) return ProductRule::vectors;
  return ProductRule::decoded;
}

/// The budget: w_a + w_b + ceil(log2 n) ≤ 53 for dots of n products.
bool is_exact(const QuantSpec& a, const QuantSpec& b, int64_t n) {
  const int log2_n = std::bit_width(static_cast<uint64_t>(n - 1));  // ceil(log2 n), n ≥ 1
  return significand_span_bits(a.element) + significand_span_bits(b.element) + log2_n <= 53;
}

/// Dots of the unscaled elements of two vectors: exact within the budget of n products, else the fp32 rule.
class ElementDots {
 public:
  ElementDots(const Operand& a, const Operand& b, int64_t n)
      : exact_(is_exact(a.spec(), b.spec(), n)),
        exponent_(min_step_exponent(a.spec().element) + min_step_exponent(b.spec().element)),
        k_(a.k()) {
    if (exact_) {
      units_a_ = a.units(), units_b_ = b.units();
    } else {
      elements_a_ = a.elements(), elements_b_ = b.elements();
    }
  }

  /// Σ over k in [first, last) of vector i of a and vector j of b, in binary32.
  float operator()(int64_t i, int64_t j, int64_t first, int64_t last) const {
    const int64_t at_a = i * k_ + first, at_b = j * k_ + first, n = last - first;
    if (exact_) return exact_dot(units_a_.data() + at_a, units_b_.data() + at_b, n, exponent_);
    return fp32_dot(elements_a_.data() + at_a, elements_b_.data() + at_b, n);
  }

 private:
  bool exact_;
  int exponent_;
  int64_t k_;
  std::vector<int64_t> units_a_, units_b_;
  std::vector<float> elements_a_, elements_b_;
};

/// Writes y (matrices, m, n) with product(i, j), i and j counted over all matrices of a and of b.
template <class Product>
void fill(const Operand& a, const Operand& b, float* y, const Product& product) {
  for (int64_t i = 0; i < a.matrices() * a.rows(); ++i) {
    const int64_t first = i / a.rows() * b.rows();
    for (int64_t j = first; j < first + b.rows(); ++j) *y++ = product(i, j);
  }
}

void decoded_product(const Operand& a, const Operand& b, float* y) {
  const std::vector<float> va = a.decoded(), vb = b.decoded();
  const int64_t k = a.k();
  fill(a, b, y, [&](int64_t i, int64_t j) { return fp32_dot(va.data() + i * k, vb.data() + j * k, k); });
}

void block_product(const Operand& a, const Operand& b, float* y) {
  const int64_t k = a.k(), block = contraction_block(a.spec()), blocks = (k + block - 1) / block;
  const std::vector<float> scales_a = a.scales(block), scales_b = b.scales(block);
  const ElementDots dots(a, b, block);
  fill(a, b, y, [&](int64_t i, int64_t j) {
    return sum_of_panels(k, [&](int64_t first, int64_t last) {
      float acc = 0.0f;
      for (int64_t at = first; at < last; at += block) {
        const int64_t number = at / block;
        const float scale =
            scales_a[static_cast<size_t>(i * blocks + number)] * scales_b[static_cast<size_t>(j * blocks + number)];
        acc = std::fma(dots(i, j, at, std::min(last, at + block)), scale, acc);
      }
      return acc;
    });
  });
}

void vector_product(const Operand& a, const Operand& b, float* y) {
  const std::vector<float> scales_a = a.scales(a.k()), scales_b = b.scales(b.k());
  const ElementDots dots(a, b, a.k());
  fill(a, b, y, [&](int64_t i, int64_t j) {
    const float scale = scales_a[static_cast<size_t>(i)] * scales_b[static_cast<size_t>(j)];
    return dots(i, j, 0, a.k()) * scale;
  });
}

/// y = fl(fl(y·d_a)·d_b); an operand without a tensor scale is skipped.
void apply_tensor_scales(const Operand& a, const Operand& b, float* y, int64_t n) {
  for (const Operand* operand : {&a, &b}) {
    if (!has_tensor_scale(operand->spec())) continue;
    const float d = operand->tensor_scale();
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] * d;
  }
}

/// +sr34 quantizes 0.75·x: the finished product is multiplied by (4/3)² or by 4/3 (§6).
void apply_sr34(const Operand& a, const Operand& b, float* y, int64_t n) {
  if (!a.sr34() && !b.sr34()) return;
  const float factor = a.sr34() && b.sr34() ? 16.0f / 9.0f : 4.0f / 3.0f;
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] * factor;
}

}  // namespace

void matmul(const NodeCall& call) {
  const Operand a(call.in[0], parse_axis(call.node.attrs.text("a_axis")));
  const Operand b(call.in[1], parse_axis(call.node.attrs.text("b_axis")));
  float* y = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.out[0].type.shape);
  if (a.k() == 0) {
    std::fill(y, y + n, 0.0f);
    return;
  }
  switch (rule_of(a, b)) {
    case ProductRule::decoded: decoded_product(a, b, y); break;
    case ProductRule::blocks: block_product(a, b, y), apply_tensor_scales(a, b, y, n); break;
    case ProductRule::vectors: vector_product(a, b, y), apply_tensor_scales(a, b, y, n); break;
  }
  apply_sr34(a, b, y, n);
}

}  // namespace fp4sim::scalar::kernels
