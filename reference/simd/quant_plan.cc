#include "reference/simd/quant_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/contract/host_math.h"
#include "reference/simd/code_values.h"

namespace fp4sim::simd {
namespace {

constexpr float kFloatMax = std::numeric_limits<float>::max();

float two_to(int exponent) { return std::ldexp(1.0f, exponent); }

/// §4.2: S, gs and d are clamped to FLT_MAX and raised to 2^-149.
float tensor_factor(float x) { return std::min(std::max(x, 0x1p-149f), kFloatMax); }

/// `numerator`/A as S of te, fouroversix and 4over6; 1 if A = 0.
void set_multiplier(ScalePlan* p, float numerator) {
  const float quotient = numerator / p->amax;
  p->multiplier = p->amax == 0 ? 1.0f : tensor_factor(quotient);
  p->d = tensor_factor(1.0f / p->multiplier);
}

void set_tensor_scale(ScalePlan* p) {
  const auto smax = static_cast<float>(p->scale_max);
  switch (p->rule) {
    case ScaleRule::te: {
      set_multiplier(p, smax * p->max_normal);
      const float inverse_max = 1.0f / p->max_normal;
      p->block_factor = p->multiplier * inverse_max;
      return;
    }
    case ScaleRule::fouroversix: return set_multiplier(p, 2688.0f);
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae: return set_multiplier(p, 1536.0f);
    case ScaleRule::torchao:
    case ScaleRule::modelopt: {
      const float quotient = p->amax / 2688.0f;
      p->d = p->amax == 0 ? 1.0f : tensor_factor(quotient);
      return;
    }
    case ScaleRule::exact: {
      // smax·emx has few bits: the quotient rounded to binary64 is never a midpoint of binary32 that the real one is
      // not.
      const double quotient = static_cast<double>(p->amax) / (p->scale_max * static_cast<double>(p->max_normal));
      p->d = p->amax == 0 ? 1.0f : tensor_factor(static_cast<float>(quotient));
      return;
    }
    default: return;
  }
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
  c.min_normal = two_to(emin(f));
  c.min_step = two_to(min_step_exponent(f));
  c.max_normal = static_cast<float>(max_normal_value(f));
  c.rounding = rounding;
  c.emin = emin(f);
  c.twos_complement = f.encoding == Encoding::twos_complement;
  return c;
}

Codec make_codec(const QuantSpec& s, const ElementFormat& format) {
  return make_codec(format, s.rounding, s.ieee || format.bits >= 16, !is_unscaled(s));
}

Codec make_codec(const QuantSpec& s) { return make_codec(s, s.element); }

CodeValues::CodeValues(const ElementFormat& f) {
  if (f.bits > 8) return;
  for (uint32_t code = 0; code < (1u << f.bits); ++code) values[code] = static_cast<float>(code_value(f, code));
}

Codec decode_codec(const QuantSpec& s, const ElementFormat& format, const CodeValues& table) {
  Codec c = make_codec(s, format);
  if (format.user || c.twos_complement) c.values = table.values;
  return c;
}

Scaling scaling_of(const QuantSpec& s) {
  switch (s.rule) {
    case ScaleRule::none: return Scaling::none;
    case ScaleRule::te:
    case ScaleRule::torchao:
    case ScaleRule::fouroversix:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae: return Scaling::multiply;
    case ScaleRule::one:
    case ScaleRule::modelopt: return Scaling::divide;
    case ScaleRule::exact: return Scaling::quotient;
    case ScaleRule::amax:
    case ScaleRule::pow2: return Scaling::divide_clamped;
    default: {
      const bool away = s.rounding == Rounding::rtp || s.rounding == Rounding::rtn;
      return away ? Scaling::multiply_away : Scaling::multiply;
    }
  }
}

ValuePlan make_value_plan(const QuantSpec& s, const ElementFormat& format, const ScalePlan& p) {
  const auto max_normal = static_cast<float>(max_normal_value(format));
  const Scaling scaling = s.scale == ScaleFormat::e8m0 ? Scaling::multiply_real : scaling_of(s);
  return {scaling, s.sr34, max_normal, p.scale_max * static_cast<double>(max_normal), static_cast<double>(p.amax)};
}

bool encodes_narrow(const QuantSpec& s, const ScalePlan& p) {
  const ElementFormat& f = s.element;
  if (f.user || f.encoding == Encoding::twos_complement || f.mantissa_bits == 0) return false;
  if (s.rounding == Rounding::sr8 || s.sr34 || s.rule == ScaleRule::exact) return false;
  // te clamps its factor, one has none of d: their y is at most infinite, and saturates.
  const bool clamps = !has_tensor_scale(s) || s.rule == ScaleRule::te;
  return clamps || (p.d >= 0x1p-100f && p.d <= 0x1p+100f);
}

ScalePlan make_scale_plan(const QuantSpec& s, float tensor_amax) {
  const auto max_normal = static_cast<float>(max_normal_value(s.element));
  ScalePlan p{};
  p.rule = s.rule;
  p.emax = emax(s.element);
  p.mantissa_bits = s.element.mantissa_bits;
  const int64_t implicit = int64_t{1} << s.element.mantissa_bits;
  p.max_mantissa =
      static_cast<int32_t>((max_normal_significand(s.element) - implicit) << (23 - s.element.mantissa_bits));
  p.max_normal = max_normal;
  p.d = 1.0f;
  p.multiplier = 1.0f;
  p.amax = tensor_amax;
  if (s.scale != ScaleFormat::e4m3 && s.scale != ScaleFormat::ue) return p;
  const ElementFormat format = scale_element(s);
  p.scale_codec = make_codec(format, Rounding::rne, false, false);
  p.scale_max = max_normal_value(format);
  p.ue = s.scale == ScaleFormat::ue;
  if (p.ue) scale_byte_values(s, p.scale_values);
  if (has_tensor_scale(s)) set_tensor_scale(&p);
  return p;
}

ScalePlan stored_scale_plan(const QuantSpec& s, const Tensor& packed) {
  ScalePlan p = make_scale_plan(s, 0.0f);
  if (has_tensor_scale(s)) p.d = *in_data<float>(packed, 2);
  return p;
}

int32_t automatic_bias(const ElementFormat& f, float amax) {
  if (amax == 0) return f.bias;
  const BiasRange range = user_bias_range(f.exponent_bits, f.mantissa_bits);
  int bias = range.highest;
  while (bias > range.lowest && max_normal_value(with_bias(f, bias)) < static_cast<double>(amax)) --bias;
  return bias;
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
      const double lo = code_value(f, code), hi = code_value(f, code + 1);
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
  plan.log_ratio = host_math::log64(2.0 / e.alpha - 1.0);
  plan.slope = 1.0 / (1.0 - e.alpha);
  plan.delta = static_cast<float>(e.delta);
  plan.beta = e.beta;
  plan.heights = heights.data();
  plan.midpoints = midpoints.data();
  plan.weights = weights.data();
  plan.terms = static_cast<int64_t>(midpoints.size());
}

}  // namespace fp4sim::simd
