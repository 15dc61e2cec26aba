// Scales from the amax of a block or tensor, and the number y given to encode (numerics.md §4.1–4.3).
// amax is finite here; blocks with NaN or Inf are told apart before.
#pragma once

#include "gpu/codec.cuh"

namespace fp4sim::gpu {

constexpr uint8_t kE8m0NaN = 0xFF;
constexpr int kE8m0Bias = 127;

/// What kernels read of a QuantSpec, with the derived numbers of §4.2.
struct Quantizer {
  ElementFormat element;
  ElementFormat scale_element;  // of e4m3 and ue scales
  ScaleFormat scale;
  ScaleRule rule;
  Rounding rounding;
  bool ieee;              // uses_ieee
  bool sr34;              // encode gets 0.75·y
  bool has_tensor_scale;  // d accompanies the block scales
  float scale_max;        // smax
  float element_max;      // emx

  FP4SIM_HD Codec codec() const { return {element, rounding, ieee}; }
};

/// The kernels' form of a spec. Host only.
inline Quantizer quantizer_of(const QuantSpec& spec) {
  Quantizer q{spec.element,
              {},
              spec.scale,
              spec.rule,
              spec.rounding,
              uses_ieee(spec),
              spec.sr34,
              has_tensor_scale(spec),
              0,
              max_normal(spec.element)};
  if (spec.scale == ScaleFormat::e4m3 || spec.scale == ScaleFormat::ue) {
    q.scale_element = scale_element(spec);
    q.scale_max = max_normal(q.scale_element);
  }
  return q;
}

/// What a tensor gives to its blocks (§4.2): A, S and d. S is not needed for y.
struct TensorScales {
  float amax = 0;
  float encode = 1;
  float decode = 1;
};

/// Exponent and significand of a positive binary32 number: significand·2^(exponent − 23), in [2^23, 2^24).
struct Binade {
  int exponent;
  uint32_t significand;
};

FP4SIM_HD Binade binade_of(uint32_t magnitude) {
  if (magnitude >= 0x00800000u) return {static_cast<int>(magnitude >> 23) - 127, (magnitude & 0x7FFFFFu) | 0x800000u};
  const int up = leading_zeros(magnitude) - 40;  // places to bit 23 of a 64-bit word
  return {-126 - up, magnitude << up};
}

/// The smallest s with amax ≤ max_normal·2^s, not clamped; amax > 0 as its bits.
FP4SIM_HD int rceil_exponent(uint32_t amax, const ElementFormat& f) {
  const Binade b = binade_of(amax);
  // Both significands with 24 bits; max_normal's has M + 1 of its own.
  const auto limit = static_cast<uint64_t>(max_normal_significand(f)) << (23 - f.mantissa_bits);
  return b.exponent - emax(f) + (b.significand > limit ? 1 : 0);
}

FP4SIM_HD int clamp_e8m0(int s) { return s < -127 ? -127 : s > 127 ? 127 : s; }

/// The e8m0 exponent of a block with amax > 0, clamped; rule opt gives its rceil candidate (§4.1).
FP4SIM_HD int e8m0_exponent(uint32_t amax, const ElementFormat& f, ScaleRule rule) {
  const Binade b = binade_of(amax);
  const int floor = b.exponent - emax(f);
  if (rule == ScaleRule::ceil) return clamp_e8m0(b.significand == 0x800000u ? floor : floor + 1);
  // Adding half a step of M fraction bits leaves the binade exactly where rounding with ties up does.
  if (rule == ScaleRule::even) return clamp_e8m0(floor + ((b.significand + (0x400000u >> f.mantissa_bits)) >> 24));
  if (rule == ScaleRule::rceil || rule == ScaleRule::opt) return clamp_e8m0(rceil_exponent(amax, f));
  return clamp_e8m0(floor);
}

FP4SIM_HD float at_most(float v, float limit) { return v > limit ? limit : v; }
FP4SIM_HD float at_least(float v, float limit) { return v < limit ? limit : v; }
FP4SIM_HD float float_max() { return float_of(kF32Max); }
FP4SIM_HD float float_min() { return float_of(1u); }  // 2^-149

/// A, S and d of a tensor by the profile, bounded; 1 for A = 0.
FP4SIM_HD TensorScales tensor_scales(float amax, const Quantizer& q) {
  TensorScales t{amax, 1, 1};
  if (amax == 0 || !q.has_tensor_scale) return t;
  switch (q.rule) {
    case ScaleRule::te:
      t.encode = at_most((q.scale_max * q.element_max) / amax, float_max());
      t.decode = 1.0f / t.encode;
      break;
    case ScaleRule::exact:  // the product is exact in binary64; the quotient is nowhere near a midpoint of binary32
      t.decode = static_cast<float>(static_cast<double>(amax) /
                                    (static_cast<double>(q.scale_max) * static_cast<double>(q.element_max)));
      break;
    case ScaleRule::torchao:
    case ScaleRule::modelopt: t.decode = amax / 2688.0f; break;
    case ScaleRule::fouroversix:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae:
      t.encode = at_most((q.rule == ScaleRule::fouroversix ? 2688.0f : 1536.0f) / amax, float_max());
      t.decode = 1.0f / t.encode;
      break;
    default: break;
  }
  t.encode = at_least(at_most(t.encode, float_max()), float_min());
  t.decode = at_least(at_most(t.decode, float_max()), float_min());
  return t;
}

/// The number whose nearest scale code the block gets (§4.2), from its amax a > 0; exact in binary64. `second`: that of
/// the second candidate of 4over6.
FP4SIM_HD double block_scale_number(float a, const TensorScales& t, const Quantizer& q, bool second) {
  switch (q.rule) {
    case ScaleRule::te: return at_most(a * (t.encode * (1.0f / q.element_max)), float_max());
    case ScaleRule::exact:
      return (static_cast<double>(a) * static_cast<double>(q.scale_max)) / static_cast<double>(t.amax);
    case ScaleRule::torchao: return at_most(at_least((a / 6.0f) / t.decode, 0x1p-6f), 448.0f);
    case ScaleRule::modelopt: return at_most(at_least(a / (6.0f * t.decode), 0x1p-9f), 448.0f);
    case ScaleRule::fouroversix:
    case ScaleRule::four_over_six_mse:
    case ScaleRule::four_over_six_mae: {
      const float sixth = (a / 6.0f) * t.encode;
      return second ? 1.5f * sixth : sixth;
    }
    default: return a / q.element_max;  // one
  }
}

/// The scale bytes a block may get; `second` wins where its error is smaller (opt, 4over6), else both are the same.
struct ScaleCandidates {
  uint8_t first, second;
};

/// The candidates of a block from the bits of its amax; 0 gives code 0.
FP4SIM_HD ScaleCandidates scale_candidates(uint32_t amax, const TensorScales& t, const Quantizer& q) {
  if (amax == 0) return {0, 0};
  if (q.scale == ScaleFormat::e8m0) {
    const int s = e8m0_exponent(amax, q.element, q.rule);
    const int below = q.rule == ScaleRule::opt ? clamp_e8m0(rceil_exponent(amax, q.element) - 1) : s;
    return {static_cast<uint8_t>(s + kE8m0Bias), static_cast<uint8_t>(below + kE8m0Bias)};
  }
  const Codec codec{q.scale_element, Rounding::rne, false};
  const float a = float_of(amax);
  const auto first = static_cast<uint8_t>(encode(block_scale_number(a, t, q, false), codec));
  const bool two = q.rule == ScaleRule::four_over_six_mse || q.rule == ScaleRule::four_over_six_mae;
  return {first, two ? static_cast<uint8_t>(encode(block_scale_number(a, t, q, true), codec)) : first};
}

/// The byte of a block with NaN or Inf.
FP4SIM_HD uint8_t nonfinite_scale(const Quantizer& q) {
  return q.scale == ScaleFormat::e8m0 ? kE8m0NaN : static_cast<uint8_t>(nan_code(q.scale_element));
}

/// The value of a scale byte, exact in binary32.
FP4SIM_HD float decode_scale(uint8_t code, const Quantizer& q) {
  if (q.scale != ScaleFormat::e8m0) return decode(code, q.scale_element);
  return code == kE8m0NaN ? canonical_nan() : pow2_f32(code - kE8m0Bias);
}

/// The binary32 scale of a block (§4.3) from the bits of its amax; 1 for 0.
FP4SIM_HD float fp32_scale(uint32_t amax, const Quantizer& q) {
  if (amax == 0) return 1.0f;
  if (q.rule != ScaleRule::pow2) return at_least(float_of(amax) / q.element_max, float_min());
  const int r = rceil_exponent(amax, q.element);
  return pow2_f32(r < -149 ? -149 : r > 127 ? 127 : r);
}

/// y of e4m3 and ue scales before an infinite or NaN result is replaced (§4.2); x ≠ 0, b ≠ 0.
FP4SIM_HD double profile_quotient(float x, float b, const TensorScales& t, const Quantizer& q) {
  switch (q.rule) {
    case ScaleRule::te: return x * at_most(1.0f / (b * t.decode), float_max());
    case ScaleRule::exact:
      return ((static_cast<double>(x) * static_cast<double>(q.scale_max)) * static_cast<double>(q.element_max)) /
             (static_cast<double>(b) * static_cast<double>(t.amax));
    case ScaleRule::torchao: return x * ((1.0f / t.decode) / b);
    case ScaleRule::modelopt: return x / (b * t.decode);
    case ScaleRule::one: return x / b;
    default: return x * (1.0f / (b * t.decode));  // fouroversix and both 4over6
  }
}

/// y without the factor of sr34.
FP4SIM_HD double unfactored_y(float x, float scale, const TensorScales& t, const Quantizer& q) {
  switch (q.scale) {
    case ScaleFormat::none: return x;
    case ScaleFormat::e8m0: {  // x·2^-s, exact
      const int s = static_cast<int>(bits_of(static_cast<double>(scale)) >> 52) - 1023;
      return static_cast<double>(x) * pow2_f64(-s);
    }
    case ScaleFormat::fp32: {
      const float y = x / scale;
      return y > q.element_max ? q.element_max : y < -q.element_max ? -q.element_max : y;
    }
    default: break;
  }
  const double sign = (bits_of(x) & kF32SignBit) != 0 ? -1.0 : 1.0;
  if (x == 0 || scale == 0) return sign * 0.0;
  const double y = profile_quotient(x, scale, t, q);
  const bool finite = (bits_of(y) & ~(uint64_t{1} << 63)) < (uint64_t{0x7FF} << 52);
  return finite ? y : sign * static_cast<double>(float_max());
}

/// y, the very number given to encode and to the estimators, from x, the block's decoded scale and the tensor's.
FP4SIM_HD double scaled_value(float x, float scale, const TensorScales& t, const Quantizer& q) {
  const double y = unfactored_y(x, scale, t, q);
  return q.sr34 ? 0.75 * y : y;
}

}  // namespace fp4sim::gpu
