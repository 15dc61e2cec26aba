// A second quantizer, written from numerics.md §4 block by block: explicit lists of element indices, every binary32
// operation done in binary64 and rounded (exact for + − × ÷ of binary32 numbers), codes by table search.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/contract/value_type.h"
#include "tests/grid_oracle.h"

namespace fp4sim::test {

struct QuantizedOracle {
  std::vector<uint32_t> codes;  // row-major over the shape
  std::vector<float> scales;    // decoded, in scale-grid order; NaN for a nonfinite block
  std::vector<double> y;        // given to encode; 0 in nonfinite blocks
  float d = 1;
  std::vector<float> decoded;
};

/// Element indices of each block in scale-grid order: (rows, cols) matrix, last or first axis.
inline std::vector<std::vector<size_t>> oracle_blocks(int64_t rows, int64_t cols, const QuantSpec& spec, Axis axis) {
  std::vector<std::vector<size_t>> blocks;
  const int64_t vectors = axis == Axis::last ? rows : cols, length = axis == Axis::last ? cols : rows;
  const int64_t size = spec.granularity == Granularity::block ? spec.block_size : length;
  const auto element = [&](int64_t v, int64_t k) {
    return static_cast<size_t>(axis == Axis::last ? v * cols + k : k * cols + v);
  };
  if (spec.granularity == Granularity::tensor) {
    blocks.emplace_back();
    for (int64_t i = 0; i < rows * cols; ++i) blocks[0].push_back(static_cast<size_t>(i));
    return blocks;
  }
  const auto add = [&](int64_t v, int64_t first) {
    blocks.emplace_back();
    for (int64_t k = first; k < std::min(first + size, length); ++k) blocks.back().push_back(element(v, k));
  };
  // Scales are row-major: vectors outside for axis=last, blocks outside for axis=first.
  if (axis == Axis::last) {
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t first = 0; first < length; first += size) add(v, first);
  } else {
    for (int64_t first = 0; first < length; first += size)
      for (int64_t v = 0; v < vectors; ++v) add(v, first);
  }
  return blocks;
}

/// One rounding to binary32.
inline float fl(double v) { return static_cast<float>(v); }
inline float at_most_max(float v) {
  return v > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : v;
}

inline float oracle_e8m0(double amax, const QuantSpec& spec) {
  if (amax == 0) return std::ldexp(1.0f, -127);
  const GridTable table = grid_table(spec.element);
  const double max_normal = table.values.back();
  const int e = std::ilogb(amax), top = std::ilogb(max_normal);
  int s = e - top;
  if (spec.rule == ScaleRule::ceil && amax > std::ldexp(1.0, e)) ++s;
  // Rounded to M + 1 significant bits, ties up.
  if (spec.rule == ScaleRule::even) {
    const double unit = std::ldexp(1.0, e - spec.element.mantissa_bits);
    s = std::ilogb(std::floor(amax / unit + 0.5) * unit) - top;
  }
  if (spec.rule == ScaleRule::rceil) {
    s = -400;
    while (amax > std::ldexp(max_normal, s)) ++s;
  }
  return std::ldexp(1.0f, std::clamp(s, -127, 127));
}

inline float oracle_fp32_scale(double amax, const QuantSpec& spec) {
  const double max_normal = grid_table(spec.element).values.back();
  if (amax == 0) return 1;
  if (spec.rule == ScaleRule::amax) return std::max(fl(amax / max_normal), 0x1p-149f);
  int r = -149;
  while (r < 127 && amax > std::ldexp(max_normal, r)) ++r;
  return std::ldexp(1.0f, r);
}

inline float oracle_e4m3_scale(double amax, float encode, const QuantSpec& spec) {
  const double emx = grid_table(spec.element).values.back();
  const GridTable e4m3 = grid_table(kE4m3);
  const float te = at_most_max(fl(amax * static_cast<double>(fl(static_cast<double>(encode) * fl(1 / emx)))));
  const float value = spec.rule == ScaleRule::te ? te : fl(amax / emx);
  return static_cast<float>(e4m3.values[search_code(value, kE4m3, e4m3, Rounding::rne, false, 0)]);
}

inline double oracle_y(double x, double scale, double d, const QuantSpec& spec) {
  if (spec.scale == ScaleFormat::none) return x;
  if (spec.scale == ScaleFormat::e8m0) return x / scale;
  const double max_normal = grid_table(spec.element).values.back();
  if (spec.scale == ScaleFormat::fp32) return std::copysign(std::min<double>(std::fabs(fl(x / scale)), max_normal), x);
  if (x == 0 || scale == 0) return std::copysign(0.0, x);
  const float enc = at_most_max(fl(1.0 / static_cast<double>(fl(scale * d))));
  const float y = spec.rule == ScaleRule::one ? fl(x / scale) : fl(x * enc);
  return std::isfinite(y) ? y : std::copysign(std::numeric_limits<float>::max(), x);
}

/// quantize and dequantize of a (rows, cols) matrix. random[i] are element i's random bits.
inline QuantizedOracle quantize_oracle(const std::vector<float>& x, int64_t rows, int64_t cols, const QuantSpec& spec,
                                       Axis axis, const std::vector<uint32_t>& random) {
  QuantizedOracle out;
  out.codes.resize(x.size());
  out.y.resize(x.size());
  out.decoded.resize(x.size());
  const GridTable table = grid_table(spec.element);
  const auto blocks = oracle_blocks(rows, cols, is_unscaled(spec) ? parse_quant_spec("e2m1:tensor:fp32") : spec, axis);
  std::vector<float> amax;
  float tensor_amax = 0;
  for (const auto& block : blocks) {
    float a = 0;
    bool finite = true;
    for (const size_t i : block) {
      if (std::isfinite(x[i])) a = std::max(a, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    amax.push_back(finite ? a : NAN);
    if (finite) tensor_amax = std::max(tensor_amax, a);
  }
  float encode = 1;
  if (spec.rule == ScaleRule::te && tensor_amax > 0) {
    encode = at_most_max(fl(static_cast<double>(fl(448.0 * table.values.back())) / tensor_amax));
    out.d = fl(1.0 / encode);
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool marked = !is_unscaled(spec) && std::isnan(amax[b]);
    float scale = marked ? NAN : 1;
    if (!marked && spec.scale == ScaleFormat::e8m0) scale = oracle_e8m0(amax[b], spec);
    if (!marked && spec.scale == ScaleFormat::fp32) scale = oracle_fp32_scale(amax[b], spec);
    if (!marked && spec.scale == ScaleFormat::e4m3) scale = amax[b] == 0 ? 0 : oracle_e4m3_scale(amax[b], encode, spec);
    out.scales.push_back(scale);
    for (const size_t i : blocks[b]) {
      if (!marked) {
        out.y[i] = oracle_y(x[i], scale, out.d, spec);
        out.codes[i] = search_code(out.y[i], spec.element, table, spec.rounding, uses_ieee(spec), random[i]);
      }
      const uint32_t sign_bit = 1u << (spec.element.bits - 1), magnitude = out.codes[i] & (sign_bit - 1);
      double value = magnitude < table.values.size() ? table.values[magnitude]
                     : spec.element.specials == Specials::ieee && magnitude == table.values.size()
                         ? std::numeric_limits<double>::infinity()
                         : NAN;
      if ((out.codes[i] & sign_bit) != 0) value = -value;
      if (is_unscaled(spec)) {
        out.decoded[i] = fl(value);
      } else {
        out.decoded[i] = fl(value * scale);
        if (has_tensor_scale(spec)) out.decoded[i] = fl(static_cast<double>(out.decoded[i]) * out.d);
      }
    }
  }
  return out;
}

}  // namespace fp4sim::test
