// Products written a second time from numerics.md §7, one output at a time: exact dots as integer sums, chains by
// std::fma, codes decoded by the formulas of §2. Reads host values only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/grid_oracle.h"
#include "tests/node_runner.h"

namespace fp4sim::test {

__extension__ typedef __int128 Int128;

/// An element as sign·digits·2^exponent, or not finite.
struct OracleElement {
  Int128 steps = 0;  // in units of the format's smallest step
  float value = 0;
  bool finite = true;
};

inline OracleElement oracle_element(const ElementFormat& f, uint32_t code) {
  const uint32_t half = 1u << (f.bits - 1), magnitude = code % half;
  if (f.encoding == Encoding::twos_complement) {
    const int64_t steps = static_cast<int64_t>(code) - (code >= half ? int64_t{1} << f.bits : 0);
    return {steps, static_cast<float>(std::ldexp(static_cast<double>(steps), -f.mantissa_bits)), true};
  }
  const int sign = code >= half ? -1 : 1;
  const auto exponent = static_cast<int>(magnitude / (1u << f.mantissa_bits));
  const auto fraction = static_cast<int64_t>(magnitude % (1u << f.mantissa_bits));
  const bool top = exponent == (1 << f.exponent_bits) - 1;
  OracleElement e;
  if (f.specials == Specials::ieee && top) {
    e.finite = false;
    e.value = fraction == 0 ? static_cast<float>(sign) * std::numeric_limits<float>::infinity()
                            : std::numeric_limits<float>::quiet_NaN();
    return e;
  }
  if (f.specials == Specials::nan_only && magnitude == half - 1) {
    e.finite = false, e.value = std::numeric_limits<float>::quiet_NaN();
    return e;
  }
  const int64_t significand = exponent == 0 ? fraction : fraction + (int64_t{1} << f.mantissa_bits);
  const int shift = exponent == 0 ? 0 : exponent - 1;
  e.value =
      static_cast<float>(sign * std::ldexp(static_cast<double>(significand), shift + 1 - f.bias - f.mantissa_bits));
  if (magnitude == 0 && sign < 0) e.value = -0.0f;
  if (shift < 64) e.steps = sign * (static_cast<Int128>(significand) << shift);
  return e;
}

/// An operand as plain vectors: value (decoded, all scales), element, and scale of every (matrix, vector, k).
struct OracleOperand {
  int64_t matrices, vectors, k;
  std::vector<float> values;
  std::vector<OracleElement> elements;
  std::vector<float> scales;
  bool packed = false;
  QuantSpec spec;
  float d = 1;
  bool has_d = false;
  size_t at(int64_t m, int64_t v, int64_t i) const { return static_cast<size_t>((m * vectors + v) * k + i); }
};

inline float oracle_scale(const QuantSpec& spec, const std::vector<std::byte>& part, size_t index) {
  if (spec.scale == ScaleFormat::fp32) return from_bytes<float>(part)[index];
  const auto byte = static_cast<uint32_t>(part[index]);
  if (spec.scale == ScaleFormat::e8m0)
    return byte == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(byte) - 127);
  if (spec.scale == ScaleFormat::e4m3) return oracle_element(kE4m3, byte).value;
  // ue{E}m{M}: no sign, the all-ones code is NaN.
  const int e = spec.scale_exponent_bits, m = spec.scale_mantissa_bits, bias = (1 << (e - 1)) - 1;
  if (byte == (1u << (e + m)) - 1) return std::numeric_limits<float>::quiet_NaN();
  const auto field = static_cast<int>(byte >> m), fraction = static_cast<int>(byte % (1u << m));
  return static_cast<float>(field == 0 ? std::ldexp(fraction, 1 - bias - m)
                                       : std::ldexp((1 << m) + fraction, field - bias - m));
}

/// Index of the scale of element (r, c) of matrix m in the order of §4.4.
inline int64_t oracle_scale_index(const QuantSpec& spec, Axis axis, int64_t m, int64_t r, int64_t c, int64_t rows,
                                  int64_t cols) {
  const int64_t b = spec.block_size;
  const bool last = axis == Axis::last;
  const auto up = [b](int64_t n) { return (n + b - 1) / b; };
  switch (spec.granularity) {
    case Granularity::block: return last ? (m * rows + r) * up(cols) + c / b : (m * up(rows) + r / b) * cols + c;
    case Granularity::tile2d: return (m * up(rows) + r / b) * up(cols) + c / b;
    case Granularity::row: return last ? m * rows + r : m * cols + c;
    case Granularity::col: return last ? m * cols + c : m * rows + r;
    default: return 0;
  }
}

inline OracleOperand oracle_operand(const HostValue& v, Axis axis) {
  const Shape& s = v.type.shape;
  const int64_t rows = s[s.size() - 2], cols = s.back();
  OracleOperand o;
  o.matrices = s.size() == 3 ? s[0] : 1;
  o.vectors = axis == Axis::last ? rows : cols, o.k = axis == Axis::last ? cols : rows;
  const auto n = static_cast<size_t>(o.matrices * rows * cols);
  o.values.resize(n), o.elements.resize(n), o.scales.assign(n, 1.0f);
  o.packed = v.type.dtype == DType::packed, o.spec = v.type.spec;
  if (o.packed && v.parts.size() == 3) o.has_d = true, o.d = from_bytes<float>(v.parts[2])[0];
  ElementFormat element = o.spec.element;
  if (o.packed && element.bias_auto) element.bias = static_cast<int16_t>(from_bytes<int32_t>(v.parts[1])[0]);
  const int bits = element.bits;
  const int64_t row_bytes = (cols * bits + 7) / 8;
  for (int64_t m = 0; m < o.matrices; ++m)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t vector = axis == Axis::last ? r : c, i = axis == Axis::last ? c : r;
        const auto stored = static_cast<size_t>((m * rows + r) * cols + c);
        const size_t at = o.at(m, vector, i);
        if (v.type.dtype == DType::f32) {
          std::memcpy(&o.values[at], v.parts[0].data() + 4 * stored, 4);
        } else if (v.type.dtype == DType::bf16) {
          uint16_t half;
          std::memcpy(&half, v.parts[0].data() + 2 * stored, 2);
          const uint32_t word = static_cast<uint32_t>(half) << 16;
          std::memcpy(&o.values[at], &word, 4);
        } else {
          const auto row = static_cast<size_t>((m * rows + r) * row_bytes);
          uint32_t code = 0;
          for (int bit = 0; bit < bits; ++bit) {
            const auto position = static_cast<size_t>(c * bits + bit);
            const auto byte = static_cast<uint32_t>(v.parts[0][row + position / 8]);
            code |= ((byte >> (position % 8)) & 1u) << bit;
          }
          if (bits == 32)
            std::memcpy(&o.values[at], &code, 4);
          else
            o.elements[at] = oracle_element(element, code), o.values[at] = o.elements[at].value;
          if (o.spec.granularity == Granularity::none) continue;
          const int64_t scale = oracle_scale_index(o.spec, axis, m, r, c, rows, cols);
          o.scales[at] = oracle_scale(o.spec, v.parts[1], static_cast<size_t>(scale));
          o.values[at] = o.values[at] * o.scales[at];
          if (o.has_d) o.values[at] = o.values[at] * o.d;
        }
      }
  return o;
}

/// The dot of elements [from, to) of two vectors, rounded once, or beyond the budget the fp32 rule.
inline float oracle_dot(const OracleOperand& a, size_t at_a, const OracleOperand& b, size_t at_b, int64_t n,
                        bool exact) {
  if (!exact) {
    float total = 0;
    for (int64_t p = 0; p < n; p += 1024) {
      float acc = 0;
      for (int64_t i = p; i < std::min(n, p + 1024); ++i)
        acc = std::fma(a.elements[at_a + static_cast<size_t>(i)].value, b.elements[at_b + static_cast<size_t>(i)].value,
                       acc);
      total = p == 0 ? acc : total + acc;
    }
    return total;
  }
  Int128 sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const OracleElement &x = a.elements[at_a + static_cast<size_t>(i)], &y = b.elements[at_b + static_cast<size_t>(i)];
    if (!x.finite || !y.finite) return std::numeric_limits<float>::quiet_NaN();
    sum += x.steps * y.steps;
  }
  const auto step = [](const ElementFormat& f) {
    return f.encoding == Encoding::twos_complement ? -f.mantissa_bits : 1 - f.bias - f.mantissa_bits;
  };
  return static_cast<float>(std::ldexp(static_cast<double>(sum), step(a.spec.element) + step(b.spec.element)));
}

/// w of §7: the bit length of max_normal in units of the smallest positive value (e2m1 4, e4m3 18, e5m2 32).
inline int oracle_span(const ElementFormat& f) {
  if (f.bits > 8) return 64;  // unscaled levels never meet the budget's question
  const GridTable table = grid_table(f);
  return std::ilogb(table.values.back() / table.values[1]) + 1;
}

/// y = a·bᵀ by §7, row-major (matrices, m, n).
inline std::vector<float> oracle_product(const OracleOperand& a, const OracleOperand& b) {
  const auto vector_scaled = [](const OracleOperand& o) {
    return o.spec.granularity == Granularity::row || o.spec.granularity == Granularity::tensor;
  };
  const bool both = a.packed && b.packed;
  const auto in_blocks = [](const OracleOperand& o) {
    return o.spec.granularity == Granularity::block || o.spec.granularity == Granularity::tile2d;
  };
  const bool blocks = both && in_blocks(a) && in_blocks(b) && a.spec.block_size == b.spec.block_size;
  const bool vectors = both && vector_scaled(a) && vector_scaled(b);
  const int64_t n = blocks ? a.spec.block_size : a.k;
  const bool exact = n > 0 && oracle_span(a.spec.element) + oracle_span(b.spec.element) +
                                      static_cast<int>(std::ceil(std::log2(static_cast<double>(n)))) <=
                                  53;
  std::vector<float> y;
  for (int64_t m = 0; m < a.matrices; ++m)
    for (int64_t i = 0; i < a.vectors; ++i)
      for (int64_t j = 0; j < b.vectors; ++j) {
        float result = 0;
        if (vectors && a.k > 0) {
          const size_t pa = a.at(m, i, 0), pb = b.at(m, j, 0);
          result = oracle_dot(a, pa, b, pb, a.k, exact) * (a.scales[pa] * b.scales[pb]);
        } else {
          for (int64_t p = 0; p < a.k; p += 1024) {
            float acc = 0;
            const int64_t end = std::min(a.k, p + 1024), step = blocks ? n : 1;
            for (int64_t k = p; k < end; k += step) {
              const size_t pa = a.at(m, i, k), pb = b.at(m, j, k);
              acc = blocks ? std::fma(oracle_dot(a, pa, b, pb, std::min(step, end - k), exact),
                                      a.scales[pa] * b.scales[pb], acc)
                           : std::fma(a.values[pa], b.values[pb], acc);
            }
            result = p == 0 ? acc : result + acc;
          }
        }
        if ((blocks || vectors) && a.has_d && a.k > 0) result = result * a.d;
        if ((blocks || vectors) && b.has_d && a.k > 0) result = result * b.d;
        const int sr34 = (a.packed && a.spec.sr34 ? 1 : 0) + (b.packed && b.spec.sr34 ? 1 : 0);
        if (sr34 == 1) result = result * static_cast<float>(4.0 / 3.0);
        if (sr34 == 2) result = result * static_cast<float>(16.0 / 9.0);
        y.push_back(result);
      }
  return y;
}

}  // namespace fp4sim::test
