#include "reference/scalar/scale.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/contract/error.h"
#include "reference/scalar/codec.h"

namespace fp4sim::scalar {
namespace {

constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr float kFloatMin = std::numeric_limits<float>::denorm_min();  // 2^-149

/// value = significand·2^(exponent − 23), significand in [2^23, 2^24); subnormals too.
struct Binade {
  int exponent;
  uint32_t significand;
};

Binade binade_of(float positive) {
  const auto bits = std::bit_cast<uint32_t>(positive);
  const int field = static_cast<int>(bits >> 23);
  if (field != 0) return {field - 127, (bits & 0x7FFFFFu) | 0x800000u};
  const int up = std::countl_zero(bits) - 8;  // places to the leading bit's position 23
  return {-126 - up, bits << up};
}

int clamp_e8m0(int s) { return std::clamp(s, -127, 127); }

/// rne_sat of §4.2: the scale code nearest to a value ≥ 0.
uint8_t encode_scale(double value, const QuantSpec& spec) {
  return static_cast<uint8_t>(encode_value(value, scale_element(spec), Rounding::rne, false));
}

float element_max(const QuantSpec& spec) { return static_cast<float>(max_normal_value(spec.element)); }

float fp32_value(float x, float s, const QuantSpec& spec) {
  const float y = x / s;
  const float limit = element_max(spec);
  if (y > limit) return limit;
  if (y < -limit) return -limit;
  return y;
}

/// y under e4m3 and ue scales.
double profile_value(float x, float b, const TensorScales& tensor, const QuantSpec& spec) {
  if (x == 0) return x;
  if (b == 0) return std::copysign(0.0f, x);  // an underflown scale: signed zeros
  const double y = profile_of(spec).y(x, b, tensor, maxima_of(spec));
  return std::isfinite(y) ? y : std::copysign(kFloatMax, x);
}

/// y without the factor of +sr34.
double unfactored_value(float x, float scale, const TensorScales& tensor, const QuantSpec& spec) {
  switch (spec.scale) {
    case ScaleFormat::none: return x;
    case ScaleFormat::e8m0: return static_cast<double>(x) / static_cast<double>(scale);  // exact: a power of two
    case ScaleFormat::fp32: return fp32_value(x, scale, spec);
    case ScaleFormat::e4m3:
    case ScaleFormat::ue: return profile_value(x, scale, tensor, spec);
  }
  throw Error("unreachable scale format");
}

}  // namespace

int rceil_exponent(float amax, const ElementFormat& format) {
  // With s = e − emax both numbers lie in one binade, so one step up is enough and one step down is too little.
  const int s = binade_of(amax).exponent - emax(format);
  const double limit = std::ldexp(max_normal_value(format), s);  // exact
  return static_cast<double>(amax) <= limit ? s : s + 1;
}

int e8m0_exponent(float amax, const ElementFormat& format, ScaleRule rule) {
  const Binade b = binade_of(amax);
  const int floor = b.exponent - emax(format);
  switch (rule) {
    case ScaleRule::floor: return clamp_e8m0(floor);
    case ScaleRule::ceil: return clamp_e8m0(b.significand == 0x800000u ? floor : floor + 1);
    case ScaleRule::even: {
      // Rounding to M fraction bits, ties up, leaves the binade iff adding half a step carries out of 24 bits.
      const uint32_t half = 1u << (22 - format.mantissa_bits);
      return clamp_e8m0(b.significand + half >= 0x1000000u ? floor + 1 : floor);
    }
    case ScaleRule::rceil:
    case ScaleRule::opt: return clamp_e8m0(rceil_exponent(amax, format));
    default: throw Error("not an e8m0 rule");
  }
}

TensorScales tensor_scales(float tensor_amax, const QuantSpec& spec) {
  const Profile& profile = profile_of(spec);
  if (tensor_amax == 0 || profile.tensor == nullptr) return {tensor_amax, 1, 1};
  const auto bounded = [](float v) { return std::clamp(v, kFloatMin, kFloatMax); };
  const TensorScales t = profile.tensor(tensor_amax, maxima_of(spec));
  return {tensor_amax, bounded(t.encode), bounded(t.decode)};
}

ScaleCandidates scale_candidates(float amax, const TensorScales& tensor, const QuantSpec& spec) {
  if (amax == 0) return {0, 0};
  if (spec.scale == ScaleFormat::e8m0) {
    const int s = e8m0_exponent(amax, spec.element, spec.rule);
    const int below = spec.rule == ScaleRule::opt ? clamp_e8m0(rceil_exponent(amax, spec.element) - 1) : s;
    return {static_cast<uint8_t>(s + 127), static_cast<uint8_t>(below + 127)};
  }
  const Profile& profile = profile_of(spec);
  const Maxima maxima = maxima_of(spec);
  const auto second = profile.second_block != nullptr ? profile.second_block : profile.block;
  return {encode_scale(profile.block(amax, tensor, maxima), spec), encode_scale(second(amax, tensor, maxima), spec)};
}

uint8_t nonfinite_scale_code(const QuantSpec& spec) {
  return spec.scale == ScaleFormat::e8m0 ? uint8_t{0xFF} : static_cast<uint8_t>(nan_code(scale_element(spec)));
}

float fp32_scale(float amax, const QuantSpec& spec) {
  if (amax == 0) return 1.0f;
  switch (spec.rule) {
    case ScaleRule::amax: return std::max(amax / element_max(spec), kFloatMin);
    case ScaleRule::pow2: return std::ldexp(1.0f, std::clamp(rceil_exponent(amax, spec.element), -149, 127));
    default: throw Error("not a rule of binary32 scales: " + to_string(spec));
  }
}

double scaled_value(float x, float scale, const TensorScales& tensor, const QuantSpec& spec) {
  const double y = unfactored_value(x, scale, tensor, spec);
  return spec.sr34 ? 0.75 * y : y;
}

}  // namespace fp4sim::scalar
