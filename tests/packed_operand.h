// Packed operands built by hand and their product computed another way: elements as binary128 numbers, exact sums in
// binary128 (113 bits), the layout of numerics.md §4.4 written out. Shares no code with the backends.
#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/node_runner.h"

namespace fp4sim::test {

/// The value of a code from its fields.
inline double code_value(uint32_t code, const ElementFormat& f) {
  const uint32_t sign = (code >> (f.bits - 1)) & 1u, field = (code >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1u);
  const double fraction = static_cast<double>(code & ((1u << f.mantissa_bits) - 1u)) / (1u << f.mantissa_bits);
  double value =
      field == 0 ? std::ldexp(fraction, 1 - f.bias) : std::ldexp(1 + fraction, static_cast<int>(field) - f.bias);
  const bool top = field == (1u << f.exponent_bits) - 1u;
  if (f.specials == Specials::nan_only && top && fraction == 0.875) value = NAN;
  if (f.specials == Specials::ieee && top) value = fraction == 0 ? INFINITY : NAN;
  return sign != 0 ? -value : value;
}

/// One packed operand in contraction order: vectors (matrix, row) of k codes; `scales` (vectors, blocks) are raw codes,
/// or the bits of binary32 scales. Granularity `tensor` uses scales[0] only.
struct PackedOperand {
  QuantSpec spec;
  Axis axis = Axis::last;
  int64_t matrices = 1, rows = 0, k = 0;
  std::vector<uint32_t> codes, scales;
  float d = 1.0f;

  int64_t block() const { return spec.block_size != 0 ? spec.block_size : std::max<int64_t>(k, 1); }
  int64_t blocks() const { return spec.block_size != 0 ? (k + block() - 1) / block() : 1; }
  double element(int64_t vector, int64_t at) const {
    return code_value(codes[static_cast<size_t>(vector * k + at)], spec.element);
  }
  float scale(int64_t vector, int64_t at) const {
    const bool tensor = spec.granularity == Granularity::tensor;
    const uint32_t raw = scales[tensor ? 0 : static_cast<size_t>(vector * blocks() + at / block())];
    if (spec.scale == ScaleFormat::fp32) return std::bit_cast<float>(raw);
    if (spec.scale == ScaleFormat::e8m0) return raw == 0xFF ? NAN : std::ldexp(1.0f, static_cast<int>(raw) - 127);
    return static_cast<float>(code_value(raw, kE4m3));
  }
  /// fl(fl(element·scale)·d).
  float decoded(int64_t vector, int64_t at) const {
    const auto value = static_cast<float>(element(vector, at));
    if (is_unscaled(spec)) return value;
    return has_tensor_scale(spec) ? value * scale(vector, at) * d : value * scale(vector, at);
  }
};

inline void put_bits(std::vector<std::byte>& bytes, int64_t row_begin, int64_t index, int bits, uint32_t code) {
  for (int b = 0; b < bits; ++b) {
    const int64_t at = index * bits + b;
    bytes[static_cast<size_t>(row_begin + at / 8)] |= static_cast<std::byte>(((code >> b) & 1u) << (at % 8));
  }
}

/// The operand as a packed value of shape (matrices, rows, k) or (matrices, k, rows); (rows, k) for one matrix.
inline HostValue packed_value(const PackedOperand& o) {
  const bool last = o.axis == Axis::last;
  Shape shape{last ? o.rows : o.k, last ? o.k : o.rows};
  const int64_t row_bytes = (shape[1] * o.spec.element.bits + 7) / 8, height = shape[0];
  if (o.matrices > 1) shape.insert(shape.begin(), o.matrices);
  HostValue v{{DType::packed, shape, o.spec, o.axis}, {}};

  std::vector<std::byte> codes(static_cast<size_t>(o.matrices * height * row_bytes));
  for (int64_t vector = 0; vector < o.matrices * o.rows; ++vector) {
    const int64_t matrix = vector / o.rows, row = vector % o.rows;
    for (int64_t at = 0; at < o.k; ++at)
      put_bits(codes, (matrix * height + (last ? row : at)) * row_bytes, last ? at : row, o.spec.element.bits,
               o.codes[static_cast<size_t>(vector * o.k + at)]);
  }
  v.parts.push_back(std::move(codes));
  if (is_unscaled(o.spec)) return v;

  std::vector<uint32_t> scales;
  if (o.spec.granularity == Granularity::tensor) {
    scales = {o.scales[0]};
  } else if (last) {
    scales = o.scales;
  } else {  // [blocks][rows] of each matrix
    for (int64_t matrix = 0; matrix < o.matrices; ++matrix)
      for (int64_t block = 0; block < o.blocks(); ++block)
        for (int64_t row = 0; row < o.rows; ++row)
          scales.push_back(o.scales[static_cast<size_t>((matrix * o.rows + row) * o.blocks() + block)]);
  }
  const std::vector<uint8_t> bytes(scales.begin(), scales.end());
  v.parts.push_back(o.spec.scale == ScaleFormat::fp32 ? to_bytes(scales) : to_bytes(bytes));
  if (has_tensor_scale(o.spec)) v.parts.push_back(to_bytes(std::vector<float>{o.d}));
  return v;
}

/// Random finite codes and ordinary scales.
inline PackedOperand random_operand(const std::string& spec, Axis axis, int64_t matrices, int64_t rows, int64_t k,
                                    uint32_t seed) {
  std::mt19937 random(seed);
  PackedOperand o{parse_quant_spec(spec), axis, matrices, rows, k, {}, {}, 1.0f};
  while (static_cast<int64_t>(o.codes.size()) < matrices * rows * k) {
    const uint32_t code = random() & ((uint64_t{1} << o.spec.element.bits) - 1u);
    if (std::isfinite(code_value(code, o.spec.element))) o.codes.push_back(code);
  }
  for (int64_t i = 0; i < matrices * rows * o.blocks(); ++i) {
    if (o.spec.scale == ScaleFormat::fp32) o.scales.push_back(0x3C000000u + random() % 0x07000000u);
    if (o.spec.scale == ScaleFormat::e8m0) o.scales.push_back(107 + random() % 40);
    if (o.spec.scale == ScaleFormat::e4m3) o.scales.push_back(1 + random() % 0x7E);
  }
  o.d = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 999.0f, -static_cast<int>(random() % 9));
  return o;
}

/// Which rule a pair of specs is expected to follow: stated by the test, not derived.
enum class Expect { exact_blocks, chain_blocks, exact_vectors, chain_vectors, decoded };

/// Σ panel by panel: value(first, last) over k in steps of 1024.
inline float panel_sum(int64_t k, const std::function<float(int64_t, int64_t)>& value) {
  std::vector<float> panels;
  for (int64_t first = 0; first < k; first += 1024) panels.push_back(value(first, std::min<int64_t>(k, first + 1024)));
  float sum = panels.empty() ? 0.0f : panels[0];
  for (size_t p = 1; p < panels.size(); ++p) sum += panels[p];
  return sum;
}

inline float product_oracle(const PackedOperand& a, const PackedOperand& b, int64_t i, int64_t j, Expect expect) {
  const auto exact = [&](int64_t first, int64_t last) {
    __float128 sum = 0;
    for (int64_t k = first; k < last; ++k) sum += static_cast<__float128>(a.element(i, k)) * b.element(j, k);
    return sum == 0 ? 0.0f : static_cast<float>(sum);
  };
  const auto chain = [&](int64_t first, int64_t last) {
    float acc = 0.0f;
    for (int64_t k = first; k < last; ++k)
      acc = std::fma(static_cast<float>(a.element(i, k)), static_cast<float>(b.element(j, k)), acc);
    return acc;
  };
  if (a.k == 0) return 0.0f;
  float y = 0.0f;
  switch (expect) {
    case Expect::decoded:
      return panel_sum(a.k, [&](int64_t first, int64_t last) {
        float acc = 0.0f;
        for (int64_t k = first; k < last; ++k) acc = std::fma(a.decoded(i, k), b.decoded(j, k), acc);
        return acc;
      });
    case Expect::exact_vectors: y = exact(0, a.k) * (a.scale(i, 0) * b.scale(j, 0)); break;
    case Expect::chain_vectors: y = panel_sum(a.k, chain) * (a.scale(i, 0) * b.scale(j, 0)); break;
    case Expect::exact_blocks:
    case Expect::chain_blocks:
      y = panel_sum(a.k, [&](int64_t first, int64_t last) {
        float acc = 0.0f;
        for (int64_t k = first; k < last; k += a.block()) {
          const int64_t end = std::min(last, k + a.block());
          acc = std::fma(expect == Expect::exact_blocks ? exact(k, end) : chain(k, end), a.scale(i, k) * b.scale(j, k),
                         acc);
        }
        return acc;
      });
      break;
  }
  if (has_tensor_scale(a.spec)) y = y * a.d;
  if (has_tensor_scale(b.spec)) y = y * b.d;
  return y;
}

/// All results (matrices, m, n).
inline std::vector<float> product_oracle(const PackedOperand& a, const PackedOperand& b, Expect expect) {
  std::vector<float> y;
  for (int64_t i = 0; i < a.matrices * a.rows; ++i)
    for (int64_t j = 0; j < b.rows; ++j) y.push_back(product_oracle(a, b, i, i / a.rows * b.rows + j, expect));
  return y;
}

}  // namespace fp4sim::test
