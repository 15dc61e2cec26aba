// Faults of the rows of numerics.md §2–§6: one scale rule, granularity, rounding, format or estimator computed wrongly.
// The wrong numbers are made with the intact backend: as the node with a changed input, attribute or type, or by
// encoding a wrong y on the unscaled format.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fuzz/mutants.h"
#include "fuzz/packed_codes.h"
#include "reference/contract/estimator.h"

namespace fp4sim::fuzz {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = 0x1p-149f;

const QuantSpec& spec_of(const SabotagedCall& c) { return c.call.out[0].type.spec; }

void with_spec(const SabotagedCall& c, const QuantSpec& spec) {
  Attrs attrs = c.call.node.attrs;
  attrs.set("spec", to_string(spec));
  c.run_with(attrs);
}

HostValue f32_value(const Shape& shape, const std::vector<float>& values) {
  HostValue value = zero_value({DType::f32, shape, {}, Axis::last});
  std::copy(values.begin(), values.end(), value.data<float>());
  return value;
}

/// The numbers y encoded on an unscaled format with the rounding and the random bits of the node.
HostValue encoded(const SabotagedCall& c, const std::vector<float>& y, const ElementFormat& element, Rounding rounding,
                  const Shape& shape) {
  QuantSpec spec;
  spec.element = element;
  spec.rounding = rounding;
  Node node = c.call.node;
  node.attrs.set("spec", to_string(spec));
  node.attrs.set("axis", "last");
  const OwnedTensor in = place_value(c.inner, f32_value(shape, y));
  const OwnedTensor out = allocate_tensor(c.inner, {DType::packed, shape, spec, Axis::last});
  std::vector<Tensor> ins{in.tensor};
  if (is_stochastic(rounding)) ins.push_back(c.call.in[1]);
  c.inner.run({node, ins, std::span(&out.tensor, 1)});
  return download_value(c.inner, out.tensor);
}

std::vector<float> decoded(const SabotagedCall& c, const HostValue& q) {
  const OwnedTensor in = place_value(c.inner, q);
  const OwnedTensor out = allocate_tensor(c.inner, {DType::f32, q.type.shape, {}, Axis::last});
  c.inner.run({{Op::dequantize, {0}, {1}, {}, "decoded"}, std::span(&in.tensor, 1), std::span(&out.tensor, 1)});
  const HostValue x = download_value(c.inner, out.tensor);
  return {x.data<float>(), x.data<float>() + element_count(q.type.shape)};
}

/// What the faults of scale rules work on: the intact result, x, and the amax of every finite block and of the tensor.
struct Blocks {
  HostValue q, x;
  std::vector<float> amax;  // 0 in a block that is not finite
  float tensor_amax = 0;

  explicit Blocks(const SabotagedCall& c) : q(c.output()), x(c.input(0)) {
    amax.assign(static_cast<size_t>(scale_grid(q.type).count()), 0.0f);
    for_each_element(q.type, [&](int64_t i, int64_t, int64_t, int64_t scale) {
      if (is_nan_scale(q, scale)) return;
      float& a = amax[static_cast<size_t>(scale)];
      a = std::max(a, std::fabs(x.data<float>()[i]));
      tensor_amax = std::max(tensor_amax, a);
    });
    if (c.call.in.size() == 3) tensor_amax = *c.input(2).data<float>();
  }
  /// y of every element: ±0 for zeros, in zero blocks, and +0 in blocks that are not finite; else y_of(x, block).
  template <class YOf>
  std::vector<float> y(YOf y_of) const {
    std::vector<float> values(static_cast<size_t>(element_count(x.type.shape)), 0.0f);
    for_each_element(q.type, [&](int64_t i, int64_t, int64_t, int64_t scale) {
      if (is_nan_scale(q, scale)) return;
      const float v = x.data<float>()[i];
      float& value = values[static_cast<size_t>(i)];
      value = v == 0 ? v : y_of(v, static_cast<size_t>(scale));
      if (!std::isfinite(value)) value = std::copysign(kLargest, v);
    });
    return values;
  }
};

// ---- scale rules ----

void exact_division_in_binary32(const SabotagedCall& c) {
  c.run();
  const QuantSpec& spec = spec_of(c);
  if (spec.rule != ScaleRule::exact || spec.sr34) return;
  Blocks blocks(c);
  const ElementFormat scale_format = scale_element(spec);
  const auto numerator = static_cast<float>(max_normal_value(scale_format) * max_normal_value(spec.element));
  std::vector<float> b;
  for (size_t i = 0; i < blocks.amax.size(); ++i) {
    const uint32_t code = blocks.q.data<uint8_t>(1)[i];
    const uint32_t fraction = code & ((1u << scale_format.mantissa_bits) - 1),
                   exponent = code >> scale_format.mantissa_bits;
    const double significand = fraction + (exponent > 0 ? std::ldexp(1.0, scale_format.mantissa_bits) : 0.0);
    b.push_back(static_cast<float>(std::ldexp(
        significand, static_cast<int>(std::max(exponent, 1u)) - scale_format.bias - scale_format.mantissa_bits)));
  }
  const std::vector<float> y = blocks.y([&](float x, size_t block) {
    return b[block] == 0 ? std::copysign(0.0f, x) : x * numerator / (b[block] * blocks.tensor_amax);
  });
  blocks.q.parts[0] = encoded(c, y, spec.element, spec.rounding, blocks.x.type.shape).parts[0];
  c.set_output(blocks.q);
}

/// One of two candidates of a block's scale.
struct Candidate {
  std::vector<uint8_t> scales;  // codes
  HostValue codes;
  std::vector<float> values;  // of the codes
};

/// The blocks of `wins` get the candidate's scale and codes.
void take(const SabotagedCall& c, Blocks& blocks, const Candidate& candidate, const std::vector<bool>& wins) {
  for (size_t i = 0; i < wins.size(); ++i)
    if (wins[i]) blocks.q.data<uint8_t>(1)[i] = candidate.scales[i];
  for_each_element(blocks.q.type, [&](int64_t, int64_t row, int64_t col, int64_t scale) {
    if (wins[static_cast<size_t>(scale)]) set_code(blocks.q, row, col, get_code(candidate.codes, row, col));
  });
  c.set_output(blocks.q);
}

void four_over_six_tie_to_four(const SabotagedCall& c) {
  c.run();
  const QuantSpec& spec = spec_of(c);
  const bool squares = spec.rule == ScaleRule::four_over_six_mse;
  if ((!squares && spec.rule != ScaleRule::four_over_six_mae) || spec.sr34) return;
  Blocks blocks(c);
  const float amax = blocks.tensor_amax;
  const float s = amax == 0 ? 1.0f : std::clamp(1536.0f / amax, kSmallest, kLargest);
  const float d = std::min(1.0f / s, kLargest);
  const auto candidate = [&](float factor) {
    Candidate result;
    std::vector<float> raw;
    for (const float a : blocks.amax) raw.push_back(std::min(factor * (a / 6.0f * s), kLargest));
    const HostValue codes = encoded(c, raw, kE4m3, Rounding::rne, {static_cast<int64_t>(raw.size())});
    const std::vector<float> b = decoded(c, codes);
    result.scales.assign(codes.data<uint8_t>(), codes.data<uint8_t>() + b.size());
    const std::vector<float> y =
        blocks.y([&](float x, size_t i) { return b[i] == 0 ? std::copysign(0.0f, x) : x * (1.0f / (b[i] * d)); });
    result.codes = encoded(c, y, spec.element, spec.rounding, blocks.x.type.shape);
    result.values = decoded(c, result.codes);
    std::vector<float> error(b.size(), 0.0f);
    for_each_element(blocks.q.type, [&](int64_t i, int64_t, int64_t, int64_t scale) {
      const auto block = static_cast<size_t>(scale);
      const float e = result.values[static_cast<size_t>(i)] * b[block] * amax / 1536.0f - blocks.x.data<float>()[i];
      error[block] += squares ? e * e : std::fabs(e);
    });
    return std::pair(std::move(result), std::move(error));
  };
  const auto [six, six_error] = candidate(1.0f);
  const auto [four, four_error] = candidate(1.5f);
  std::vector<bool> wins(blocks.amax.size());
  for (size_t i = 0; i < wins.size(); ++i) wins[i] = blocks.amax[i] != 0 && four_error[i] == six_error[i];
  take(c, blocks, four, wins);
}

/// The exponent of rule rceil (numerics.md §4.1) before the clamp.
int rceil_exponent(float amax, const ElementFormat& element) {
  int s = std::ilogb(amax) - emax(element) - 1;
  while (static_cast<double>(amax) > std::ldexp(max_normal_value(element), s)) ++s;
  return s;
}

void opt_tie_to_lower(const SabotagedCall& c) {
  c.run();
  const QuantSpec& spec = spec_of(c);
  if (spec.rule != ScaleRule::opt || spec.sr34 || is_stochastic(spec.rounding)) return;
  Blocks blocks(c);
  const auto candidate = [&](int below) {
    Candidate result;
    std::vector<int> exponents;
    for (const float a : blocks.amax) {
      constexpr int kLimit = 127;
      const int s = a == 0 ? -kLimit : std::clamp(rceil_exponent(a, spec.element) - below, -kLimit, kLimit);
      exponents.push_back(s);
      result.scales.push_back(static_cast<uint8_t>(s + kLimit));
    }
    const std::vector<float> y = blocks.y([&](float x, size_t i) { return std::ldexp(x, -exponents[i]); });
    result.codes = encoded(c, y, spec.element, spec.rounding, blocks.x.type.shape);
    result.values = decoded(c, result.codes);
    std::vector<double> error(exponents.size(), 0.0);
    for_each_element(blocks.q.type, [&](int64_t i, int64_t, int64_t, int64_t scale) {
      const auto block = static_cast<size_t>(scale);
      const double decoded_value =
          std::ldexp(static_cast<double>(result.values[static_cast<size_t>(i)]), exponents[block]);
      const double e = static_cast<double>(blocks.x.data<float>()[i]) - decoded_value;
      error[block] += e * e;
    });
    return std::pair(std::move(result), std::move(error));
  };
  const auto [upper, upper_error] = candidate(0);
  const auto [lower, lower_error] = candidate(1);
  std::vector<bool> wins(blocks.amax.size());
  for (size_t i = 0; i < wins.size(); ++i) wins[i] = blocks.amax[i] != 0 && lower_error[i] == upper_error[i];
  take(c, blocks, lower, wins);
}

void modelopt_clamped_as_torchao(const SabotagedCall& c) {
  QuantSpec spec = spec_of(c);
  if (spec.rule == ScaleRule::modelopt) spec.rule = ScaleRule::torchao;
  with_spec(c, spec);
}

void ue_scale_saturates_to_nan(const SabotagedCall& c) {
  c.run();
  if (spec_of(c).scale != ScaleFormat::ue) return;
  HostValue q = c.output();
  const uint32_t nan = nan_code(scale_element(spec_of(c)));
  for (std::byte& code : q.parts[1])
    if (static_cast<uint32_t>(code) == nan - 1) code = static_cast<std::byte>(nan);
  c.set_output(q);
}

void amax_input_ignored(const SabotagedCall& c) {
  const size_t inputs = is_stochastic(spec_of(c).rounding) ? 2 : 1;
  c.inner.run({c.call.node, c.call.in.first(std::min(inputs, c.call.in.size())), c.call.out});
}

// ---- granularities ----

void tile_crosses_matrices(const SabotagedCall& c) {
  ValueType type = c.call.out[0].type;
  if (type.spec.granularity != Granularity::tile2d || type.shape.size() != 3) return c.run();
  type.shape = {type.shape[0] * type.shape[1], type.shape[2]};
  std::vector<Tensor> in(c.call.in.begin(), c.call.in.end());
  in[0].type.shape = type.shape;
  c.run_as(type, in, c.call.node.attrs);
}

void col_as_row(const SabotagedCall& c) {
  ValueType type = c.call.out[0].type;
  if (type.spec.granularity != Granularity::col) return c.run();
  type.spec.granularity = Granularity::row;
  Attrs attrs = c.call.node.attrs;
  attrs.set("spec", to_string(type.spec));
  c.run_as(type, c.call.in, attrs);
}

// ---- rounding and formats ----

void sr8_with_32_bits(const SabotagedCall& c) {
  QuantSpec spec = spec_of(c);
  if (spec.rounding == Rounding::sr8) spec.rounding = Rounding::sr32;
  with_spec(c, spec);
}

void integer_negative_zero(const SabotagedCall& c) {
  c.run();
  if (spec_of(c).element.encoding != Encoding::twos_complement) return;
  HostValue q = c.output();
  const HostValue x = c.input(0);
  const MatrixView m = matrix_view(q.type.shape);
  for (int64_t i = 0; i < element_count(q.type.shape); ++i)
    if (get_code(q, i / m.cols, i % m.cols) == 0 && std::signbit(x.data<float>()[i]))
      set_code(q, i / m.cols, i % m.cols, 1u << (q.type.spec.element.bits - 1));
  c.set_output(q);
}

void bauto_bias_off_by_one(const SabotagedCall& c) {
  c.run();
  if (!spec_of(c).element.bias_auto) return;
  HostValue q = c.output();
  *q.data<int32_t>(1) -= 1;
  c.set_output(q);
}

void most_negative_integer_clamped(const SabotagedCall& c) {
  HostValue q = c.input(0);
  if (q.type.spec.element.encoding != Encoding::twos_complement) return c.run();
  const uint32_t lowest = 1u << (q.type.spec.element.bits - 1);
  const MatrixView m = matrix_view(q.type.shape);
  for (int64_t i = 0; i < element_count(q.type.shape); ++i)
    if (get_code(q, i / m.cols, i % m.cols) == lowest) set_code(q, i / m.cols, i % m.cols, lowest + 1);
  c.run_with_input(0, q);
}

// ---- estimators and products ----

void quest_closed_bound(const SabotagedCall& c) {
  Attrs attrs = c.call.node.attrs;
  if (attrs.text("estimator") == "quest") attrs.set("estimator", "ste_clip");
  c.run_with(attrs);
}

void nonfinite_block_passes_gradient(const SabotagedCall& c) {
  c.run();
  const HostValue dy = c.input(0), q = c.input(2);
  if (is_unscaled(q.type.spec)) return;
  HostValue dx = c.output();
  for_each_element(q.type, [&](int64_t i, int64_t, int64_t, int64_t scale) {
    if (is_nan_scale(q, scale)) dx.data<float>()[i] = dy.data<float>()[i];
  });
  c.set_output(dx);
}

void soft_forward_gives_the_hard_value(const SabotagedCall& c) {
  c.inner.run({{Op::dequantize, {0}, {1}, {}, c.call.node.name}, c.call.in.subspan(1), c.call.out});
}

void sr34_factor_missing(const SabotagedCall& c) {
  std::vector<Tensor> in(c.call.in.begin(), c.call.in.end());
  for (Tensor& tensor : in) tensor.type.spec.sr34 = false;
  c.inner.run({c.call.node, in, c.call.out});
}

}  // namespace

std::vector<Mutant> format_mutants() {
  return {
      {"exact_division_in_binary32", Op::quantize, 200, "y of rule exact from binary32 operations",
       exact_division_in_binary32},
      {"four_over_six_tie_to_four", Op::quantize, 400, "the 4-candidate taken at equal errors",
       four_over_six_tie_to_four},
      {"opt_tie_to_lower", Op::quantize, 60, "the lower exponent of rule opt taken at equal errors", opt_tie_to_lower},
      {"modelopt_clamped_as_torchao", Op::quantize, 400, "torchao's clamp and order of operations for modelopt",
       modelopt_clamped_as_torchao},
      {"ue_scale_saturates_to_nan", Op::quantize, 100, "the largest scale of a ue format stored as NaN",
       ue_scale_saturates_to_nan},
      {"amax_input_ignored", Op::quantize, 100, "the tensor's own amax in place of the given one", amax_input_ignored},
      {"tile_crosses_matrices", Op::quantize, 200, "tiles of a batch as if it were one matrix", tile_crosses_matrices},
      {"col_as_row", Op::quantize, 100, "scales along rows for granularity col", col_as_row},
      {"sr8_with_32_bits", Op::quantize, 100, "all 32 random bits for sr8", sr8_with_32_bits},
      {"integer_negative_zero", Op::quantize, 60, "a negative zero of int8 and int4 stored as the most negative code",
       integer_negative_zero},
      {"bauto_bias_off_by_one", Op::quantize, 60, "the automatic bias stored one too low", bauto_bias_off_by_one},
      {"most_negative_integer_clamped", Op::dequantize, 100, "code -128 or -8 decoded as its neighbour",
       most_negative_integer_clamped},
      {"quest_closed_bound", Op::estimator_grad, 100, "quest passing a gradient at max_normal itself",
       quest_closed_bound},
      {"nonfinite_block_passes_gradient", Op::estimator_grad, 60, "the gradient of a block that is not finite",
       nonfinite_block_passes_gradient},
      {"soft_forward_gives_the_hard_value", Op::soft_forward, 20, "the decoded value for the sum of sigmoids",
       soft_forward_gives_the_hard_value},
      {"sr34_factor_missing", Op::matmul, 100, "the product of sr34 operands without its factor", sr34_factor_missing},
  };
}

}  // namespace fp4sim::fuzz
