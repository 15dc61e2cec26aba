#include "reference/simd/quant_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"

namespace fp4sim::simd {
namespace {

float power_of_two(int exponent) { return std::ldexp(1.0f, exponent); }

/// The value of a code without sign, exact in binary64.
double code_value(uint32_t code, const ElementFormat& f) {
  const int field = static_cast<int>(code >> f.mantissa_bits);
  const auto fraction = static_cast<double>(code & ((1u << f.mantissa_bits) - 1u));
  if (field == 0) return std::ldexp(fraction, min_step_exponent(f));
  return std::ldexp(fraction + std::ldexp(1.0, f.mantissa_bits), field - f.bias - f.mantissa_bits);
}

}  // namespace

Codec make_codec(const ElementFormat& f, Rounding rounding, bool ieee, bool in_block) {
  const auto max_code = static_cast<int32_t>(max_normal_code(f));
  const bool drops_sign = ieee && f.specials == Specials::nan_only;
  const auto special_nan = static_cast<int32_t>(f.specials == Specials::none ? max_normal_code(f) : nan_code(f));
  Codec c{};
  c.bits = f.bits;
  c.mantissa_bits = f.mantissa_bits;
  c.bias = f.bias;
  c.max_code = max_code;
  c.overflow_code = ieee ? max_code + 1 : max_code;  // the Inf, or e4m3's NaN
  c.unsigned_from = drops_sign ? max_code + 1 : std::numeric_limits<int32_t>::max();
  c.nan_code = in_block ? 0 : special_nan;
  c.min_normal = power_of_two(emin(f));
  c.min_step = power_of_two(min_step_exponent(f));
  c.max_normal = static_cast<float>(max_normal_value(f));
  c.rounding = rounding;
  return c;
}

Codec make_codec(const QuantSpec& s) {
  return make_codec(s.element, s.rounding, s.ieee || s.element.bits >= 16, !is_unscaled(s));
}

Scaling scaling_of(const QuantSpec& s) {
  switch (s.rule) {
    case ScaleRule::none: return Scaling::none;
    case ScaleRule::te: return Scaling::multiply;
    case ScaleRule::one: return Scaling::divide;
    case ScaleRule::amax:
    case ScaleRule::pow2: return Scaling::divide_clamped;
    default: {
      const bool away = s.rounding == Rounding::rtp || s.rounding == Rounding::rtn;
      return away ? Scaling::multiply_away : Scaling::multiply;
    }
  }
}

ScalePlan make_scale_plan(const QuantSpec& s, float tensor_amax) {
  const auto max_normal = static_cast<float>(max_normal_value(s.element));
  ScalePlan p{};
  p.rule = s.rule;
  p.emax = emax(s.element);
  p.mantissa_bits = s.element.mantissa_bits;
  p.max_mantissa = static_cast<int32_t>(std::bit_cast<uint32_t>(max_normal) & 0x7FFFFFu);
  p.max_normal = max_normal;
  p.d = 1.0f;
  if (s.rule == ScaleRule::te) {
    const auto scale_max = static_cast<float>(max_normal_value(kE4m3));
    const float product = scale_max * max_normal;
    const float quotient = product / tensor_amax;
    const float largest = std::numeric_limits<float>::max();
    const float multiplier = tensor_amax == 0 ? 1.0f : std::min(quotient, largest);  // S of §4.2
    const float inverse_max = 1.0f / max_normal;
    p.block_factor = multiplier * inverse_max;
    p.d = 1.0f / multiplier;
  }
  return p;
}

ScalePlan stored_scale_plan(const QuantSpec& s, const Tensor& packed) {
  ScalePlan p = make_scale_plan(s, 0.0f);
  if (has_tensor_scale(s)) p.d = *in_data<float>(packed, 2);
  return p;
}

RandomBits random_bits(const NodeCall& call, size_t step_input) {
  const StepInfo& step = *in_data<StepInfo>(call.in[step_input]);
  return {step.seed, static_cast<uint32_t>(call.node.attrs.integer("stream")), step.step};
}

EstimatorTables::EstimatorTables(const Estimator& e, const ElementFormat& f) : plan{} {
  if (e.kind == EstimatorKind::soft) {
    if (is_identity_f32(f)) throw Error("estimator_grad: soft has no midpoints on fp32");
    // Midpoints of neighbouring magnitudes, then both signs in ascending order.
    std::vector<double> positive, steps;
    for (uint32_t code = 0; code < max_normal_code(f); ++code) {
      const double lo = code_value(code, f), hi = code_value(code + 1, f);
      positive.push_back(lo + (hi - lo) / 2);
      steps.push_back(hi - lo);
    }
    for (size_t i = positive.size(); i-- > 0;) {
      midpoints.push_back(-positive[i]);
      heights.push_back(steps[i]);
    }
    for (size_t i = 0; i < positive.size(); ++i) {
      midpoints.push_back(positive[i]);
      heights.push_back(steps[i]);
    }
    for (const double height : heights) weights.push_back(height * e.beta);
  }
  plan.kind = e.kind;
  plan.max_normal = max_normal_value(f);
  plan.min_normal = std::ldexp(1.0, emin(f));
  plan.ulp = std::ldexp(1.0, -f.mantissa_bits);
  plan.exponent = 1.0 / e.k - 1.0;
  plan.k = e.k;
  plan.clip = e.clip;
  plan.eps_squared = e.eps * e.eps;
  plan.beta = e.beta;
  plan.heights = heights.data();
  plan.midpoints = midpoints.data();
  plan.weights = weights.data();
  plan.terms = static_cast<int64_t>(midpoints.size());
}

}  // namespace fp4sim::simd
