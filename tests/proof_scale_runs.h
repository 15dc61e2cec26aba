// The oracle of scales: stored scales of all magnitudes of amax as runs, from §4.1 and §4.2 in real numbers.
#pragma once

#include "reference/scalar/scale.h"
#include "tests/proof_runs.h"

namespace fp4sim::test {

/// §4.1 in real numbers: whether amax of value a gets at least the scale exponent s.
inline bool reaches(double a, int s, const ElementFormat& f, ScaleRule rule) {
  const double one = std::ldexp(1.0, s + emax(f));  // the floor rule's first amax with exponent s
  switch (rule) {
    case ScaleRule::floor: return a >= one;
    case ScaleRule::ceil: return a > one / 2;
    case ScaleRule::even: return a >= one - std::ldexp(one, -2 - f.mantissa_bits);
    default: return a > std::ldexp(max_normal_value(f), s - 1);  // rceil and pow2: one step less is too small
  }
}

/// Runs of scale exponents with an offset: codes for e8m0 (127), and 256 for pow2, which no code holds.
inline Runs exponent_runs(const QuantSpec& spec, int lowest, int offset) {
  Runs runs{{0, 0}};
  add_run(runs, 1, static_cast<uint32_t>(lowest + offset));
  for (int s = lowest + 1; s <= 127; ++s)
    add_run(runs, first_bits([&](double a) { return a > 0 && reaches(a, s, spec.element, spec.rule); }),
            static_cast<uint32_t>(s + offset));
  return runs;
}

/// Whether the product or quotient a·factor, rounded to binary32, is at least `least`: exact in binary64, since a tie
/// goes to the even neighbour.
template <class Compare>
bool rounds_to_at_least(float least, const Compare& exceeds) {
  const double below = std::nextafterf(least, 0.0f);
  const double middle = (below + static_cast<double>(least)) / 2;
  const bool even = (std::bit_cast<uint32_t>(least) & 1u) == 0;
  return exceeds(middle, even);
}

/// Scale codes of §4.2 `one` and `te` (A given): rne_sat of a rounded quotient or product.
inline Runs e4m3_runs(const QuantSpec& spec, float tensor_amax) {
  const auto emx = static_cast<float>(max_normal_value(spec.element));
  const float scale_max = 448.0f;
  const float inverse = 1.0f / emx;
  const float multiplier = scale_max * emx / tensor_amax;
  const double factor = multiplier * inverse;
  Runs runs{{0, 0}};
  for (const Run& code : nearest_even_runs(kE4m3, false)) {
    if (code.code == 0 || code.first >= kF32Inf) continue;
    const auto least = std::bit_cast<float>(code.first);
    const uint32_t first = first_bits([&](double a) {
      return rounds_to_at_least(least, [&](double middle, bool even) {
        const double got = spec.rule == ScaleRule::te ? a * factor : a;                   // exact: 48 bits
        const double bound = spec.rule == ScaleRule::te ? middle : middle * double{emx};  // exact
        return even ? got >= bound : got > bound;
      });
    });
    add_run(runs, first, code.code);
  }
  return runs;
}

inline constexpr float kTensorAmax = 3.7f;

inline Runs scale_runs(const QuantSpec& spec) {
  Runs runs;
  uint32_t nonfinite = 0xFF;
  switch (spec.scale) {
    case ScaleFormat::e8m0: runs = exponent_runs(spec, -127, 127); break;
    case ScaleFormat::fp32: runs = exponent_runs(spec, -149, 256), nonfinite = 1024; break;
    default: runs = e4m3_runs(spec, kTensorAmax), nonfinite = 0x7F;
  }
  add_run(runs, kF32Inf, nonfinite);
  return runs;
}

/// A stored scale as the runs name it: the code, or the exponent of pow2's power of two + 256 (0 for amax = 0, whose
/// scale is 1; 1024 for NaN).
inline uint32_t named_scale(const QuantSpec& spec, const void* scales, int64_t i, uint32_t amax) {
  if (spec.scale != ScaleFormat::fp32) return static_cast<const uint8_t*>(scales)[i];
  const float scale = static_cast<const float*>(scales)[i];
  if (std::isnan(scale)) return 1024;
  if (amax == 0) return scale == 1.0f ? 0 : 1023;
  const int exponent = std::ilogb(scale);
  return std::ldexp(1.0f, exponent) == scale ? static_cast<uint32_t>(exponent + 256) : 1023;
}

/// The scale that `scalar` gives a block of this amax.
inline uint32_t scalar_scale(const QuantSpec& spec, const scalar::TensorScales& tensor, uint32_t amax) {
  const auto a = std::bit_cast<float>(amax);
  if (spec.scale == ScaleFormat::fp32) {
    const float scale = amax >= kF32Inf ? std::bit_cast<float>(kF32CanonicalNaN) : scalar::fp32_scale(a, spec);
    return named_scale(spec, &scale, 0, amax);
  }
  return amax >= kF32Inf ? scalar::nonfinite_scale_code(spec) : scalar::scale_candidates(a, tensor, spec).first;
}

}  // namespace fp4sim::test
