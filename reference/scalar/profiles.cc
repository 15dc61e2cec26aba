#include "reference/scalar/profiles.h"

#include <algorithm>
#include <limits>

#include "reference/contract/error.h"

namespace fp4sim::scalar {
namespace {

constexpr float kFloatMax = std::numeric_limits<float>::max();

// Every operation on floats below is one rounding to binary32 (§1), in the order of §4.2's table. 6, 448, 2688 = 448·6
// and 1536 = 256·6 belong to profiles that are defined for e2m1 with e4m3 scales only.

double clamped(float value, float low, float high) { return std::min(std::max(value, low), high); }

TensorScales te_tensor(float amax, const Maxima& m) {
  const float s = std::min(m.scale * m.element / amax, kFloatMax);
  return {amax, s, 1.0f / s};
}
double te_block(float a, const TensorScales& t, const Maxima& m) {
  return std::min(a * (t.encode * (1.0f / m.element)), kFloatMax);
}
double te_y(float x, float b, const TensorScales& t, const Maxima&) {
  const float enc = std::min(1.0f / (b * t.decode), kFloatMax);
  return x * enc;
}

// `exact`: products of the numbers below fit binary64, so that each division is the one rounding.
TensorScales exact_tensor(float amax, const Maxima& m) {
  // Rounding the quotient to binary64 first changes nothing: no quotient of 24-bit numbers is so near a midpoint.
  const double d = static_cast<double>(amax) / (static_cast<double>(m.scale) * static_cast<double>(m.element));
  return {amax, 1, static_cast<float>(d)};
}
double exact_block(float a, const TensorScales& t, const Maxima& m) {
  return static_cast<double>(a) * static_cast<double>(m.scale) / static_cast<double>(t.amax);
}
double exact_y(float x, float b, const TensorScales& t, const Maxima& m) {
  const double numerator = static_cast<double>(x) * static_cast<double>(m.scale) * static_cast<double>(m.element);
  return numerator / (static_cast<double>(b) * static_cast<double>(t.amax));
}

// torchao and modelopt: gs = d.
TensorScales global_scale(float amax, const Maxima&) { return {amax, 1, amax / 2688.0f}; }
double torchao_block(float a, const TensorScales& t, const Maxima&) {
  return clamped(a / 6.0f / t.decode, 0x1p-6f, 448.0f);
}
double torchao_y(float x, float b, const TensorScales& t, const Maxima&) { return x * (1.0f / t.decode / b); }
double modelopt_block(float a, const TensorScales& t, const Maxima&) {
  return clamped(a / (6.0f * t.decode), 0x1p-9f, 448.0f);
}
double modelopt_y(float x, float b, const TensorScales& t, const Maxima&) { return x / (b * t.decode); }

TensorScales fouroversix_tensor(float amax, const Maxima&) {
  const float s = std::min(2688.0f / amax, kFloatMax);
  return {amax, s, 1.0f / s};
}
double sixth_block(float a, const TensorScales& t, const Maxima&) { return a / 6.0f * t.encode; }
double fouroversix_y(float x, float b, const TensorScales& t, const Maxima&) { return x * (1.0f / (b * t.decode)); }

TensorScales four_over_six_tensor(float amax, const Maxima&) {
  const float s = std::min(1536.0f / amax, kFloatMax);
  return {amax, s, 1.0f / s};
}
double quarter_block(float a, const TensorScales& t, const Maxima&) { return 1.5f * (a / 6.0f * t.encode); }

double one_block(float a, const TensorScales&, const Maxima& m) { return a / m.element; }
double one_y(float x, float b, const TensorScales&, const Maxima&) { return x / b; }

constexpr Profile kProfiles[] = {
    {ScaleRule::te, te_tensor, te_block, nullptr, te_y},
    {ScaleRule::exact, exact_tensor, exact_block, nullptr, exact_y},
    {ScaleRule::torchao, global_scale, torchao_block, nullptr, torchao_y},
    {ScaleRule::modelopt, global_scale, modelopt_block, nullptr, modelopt_y},
    {ScaleRule::fouroversix, fouroversix_tensor, sixth_block, nullptr, fouroversix_y},
    {ScaleRule::one, nullptr, one_block, nullptr, one_y},
    {ScaleRule::four_over_six_mse, four_over_six_tensor, sixth_block, quarter_block, fouroversix_y},
    {ScaleRule::four_over_six_mae, four_over_six_tensor, sixth_block, quarter_block, fouroversix_y},
};

}  // namespace

const Profile& profile_of(const QuantSpec& spec) {
  for (const Profile& profile : kProfiles)
    if (profile.rule == spec.rule) return profile;
  throw Error("not a profile of e4m3 or ue scales: " + to_string(spec));
}

Maxima maxima_of(const QuantSpec& spec) {
  return {static_cast<float>(max_normal_value(scale_element(spec))),
          static_cast<float>(max_normal_value(spec.element))};
}

}  // namespace fp4sim::scalar
