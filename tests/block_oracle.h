// A second quantizer, written from numerics.md §4 block by block: explicit lists of element indices, scales and y from
// scale_oracle.h, codes by table search.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/contract/value_type.h"
#include "tests/scale_oracle.h"

namespace fp4sim::test {

struct QuantizedOracle {
  std::vector<uint32_t> codes;      // row-major over the shape
  std::vector<float> scales;        // decoded, in scale-grid order; NaN for a nonfinite block
  std::vector<double> y;            // given to encode; 0 in nonfinite blocks
  std::vector<double> code_values;  // of the codes, without any scale
  std::vector<float> scale_of;      // of each element's block; 1 for unscaled specs
  float d = 1;
  ElementFormat element{};  // the spec's, with its bias found for `bauto`
  std::vector<float> decoded;
};

/// Element indices of each block in scale-grid order: (rows, cols) matrix, last or first axis.
inline std::vector<std::vector<size_t>> oracle_blocks(int64_t rows, int64_t cols, const QuantSpec& spec, Axis axis) {
  // Rows and columns of elements under one scale.
  int64_t height = rows, width = cols;
  const bool last = axis == Axis::last;
  switch (spec.granularity) {
    case Granularity::none:
    case Granularity::tensor: break;
    case Granularity::block: height = last ? 1 : spec.block_size, width = last ? spec.block_size : 1; break;
    case Granularity::tile2d: height = width = spec.block_size; break;
    case Granularity::row: (last ? height : width) = 1; break;
    case Granularity::col: (last ? width : height) = 1; break;
  }
  std::vector<std::vector<size_t>> blocks;
  for (int64_t top = 0; top < rows; top += height)
    for (int64_t left = 0; left < cols; left += width) {
      blocks.emplace_back();
      for (int64_t r = top; r < std::min(top + height, rows); ++r)
        for (int64_t c = left; c < std::min(left + width, cols); ++c)
          blocks.back().push_back(static_cast<size_t>(r * cols + c));
    }
  return blocks;
}

/// The value of a code that encode can give.
inline double oracle_code_value(uint32_t code, const ElementFormat& f, const GridTable& table) {
  const uint32_t half = 1u << (f.bits - 1);
  if (f.encoding == Encoding::twos_complement)
    return code < half ? table.values[code] : -table.values[(1u << f.bits) - code];
  const uint32_t magnitude = code % half;
  const bool infinite = f.specials == Specials::ieee && magnitude == table.values.size();
  const double beyond = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const double value = magnitude < table.values.size() ? table.values[magnitude] : beyond;
  return code >= half ? -value : value;
}

/// `bauto`: the largest allowed bias whose max_normal ≥ amax; the lowest allowed one where none is.
inline ElementFormat oracle_bias(ElementFormat f, float amax) {
  if (!f.bias_auto) return f;
  f.bias_auto = false;
  if (amax == 0) return f;
  const auto with = [&](int bias) {
    ElementFormat g = f;
    g.bias = static_cast<int16_t>(bias);
    return g;
  };
  int lowest = 400;
  for (int bias = 399; bias > -400; --bias) {
    const GridTable table = grid_table(with(bias));
    if (table.values[1] < 0x1p-149 || table.values.back() > std::numeric_limits<float>::max()) continue;
    if (table.values.back() >= static_cast<double>(amax)) return with(bias);
    lowest = bias;
  }
  return with(lowest);
}

/// quantize and dequantize of a (rows, cols) matrix. random[i] are element i's random bits; `given` stands for the
/// tensor amax where it is not null.
inline QuantizedOracle quantize_oracle(const std::vector<float>& x, int64_t rows, int64_t cols, const QuantSpec& spec,
                                       Axis axis, const std::vector<uint32_t>& random, const float* given = nullptr) {
  QuantizedOracle out;
  out.codes.resize(x.size());
  out.y.resize(x.size());
  out.code_values.resize(x.size());
  out.scale_of.assign(x.size(), 1);
  out.decoded.resize(x.size());
  const auto blocks = oracle_blocks(rows, cols, spec, axis);
  std::vector<float> amax;
  float finite_blocks = 0, finite_values = 0;
  for (const auto& block : blocks) {
    float a = 0;
    bool finite = true;
    for (const size_t i : block) {
      if (std::isfinite(x[i])) a = std::max(a, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    finite_values = std::max(finite_values, a);
    if (finite) finite_blocks = std::max(finite_blocks, a);
    if (given != nullptr && spec.granularity == Granularity::tensor) a = *given;
    amax.push_back(finite ? a : NAN);
  }
  out.element = oracle_bias(spec.element, given != nullptr ? *given : finite_values);
  const ScaleOracle oracle(spec, out.element);
  const GridTable& table = oracle.element();
  const OracleTensorScales t = oracle.tensor(given != nullptr ? *given : finite_blocks);
  out.d = t.decode;

  const auto encode = [&](size_t i, float scale, Rounding rounding) {
    out.y[i] = (spec.sr34 ? 0.75 : 1.0) * oracle.y(x[i], scale, t);
    return search_code(out.y[i], out.element, table, rounding, uses_ieee(spec), random[i]);
  };
  const bool stochastic = spec.rounding == Rounding::sr32 || spec.rounding == Rounding::sr8;
  const Rounding trial = spec.rule == ScaleRule::opt && stochastic ? Rounding::rne : spec.rounding;
  const auto error_of = [&](const std::vector<size_t>& block, float scale) {
    double sum = 0;
    for (const size_t i : block)
      sum = oracle.add_error(sum, x[i], oracle_code_value(encode(i, scale, trial), out.element, table), scale, t);
    return sum;
  };
  const auto scale_of = [&](size_t b) -> float {
    if (is_unscaled(spec)) return 1;
    if (std::isnan(amax[b])) return NAN;
    if (amax[b] == 0)
      return spec.scale == ScaleFormat::fp32 ? 1 : spec.scale == ScaleFormat::e8m0 ? std::ldexp(1.0f, -127) : 0;
    const float first = oracle.block(amax[b], t, false);
    if (!oracle.has_two()) return first;
    const float second = oracle.block(amax[b], t, true);
    return error_of(blocks[b], second) < error_of(blocks[b], first) ? second : first;
  };
  for (size_t b = 0; b < blocks.size(); ++b) {
    const float scale = scale_of(b);
    out.scales.push_back(scale);
    for (const size_t i : blocks[b]) {
      out.y[i] = 0;
      out.scale_of[i] = scale;
      out.codes[i] = std::isnan(scale) ? 0 : encode(i, scale, spec.rounding);
      const double value = out.code_values[i] = oracle_code_value(out.codes[i], out.element, table);
      out.decoded[i] = is_unscaled(spec) ? fl(value) : fl(value * scale);
      if (has_tensor_scale(spec)) out.decoded[i] = fl(static_cast<double>(out.decoded[i]) * out.d);
    }
  }
  return out;
}

}  // namespace fp4sim::test
