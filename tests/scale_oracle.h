// Scales and y a second time, written from numerics.md §4.1–4.3: every binary32 operation done in binary64 and rounded
// (exact for + − × ÷ of binary32 numbers), `exact` in binary128, scale codes by table search.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/grid_oracle.h"

namespace fp4sim::test {

__extension__ typedef __float128 Binary128;

/// One rounding to binary32.
inline float fl(double v) { return static_cast<float>(v); }
/// One binary32 operation of §4.2's table; both operands are binary32 numbers.
inline float mul(float a, float b) { return fl(static_cast<double>(a) * b); }
inline float quotient(float a, float b) { return fl(static_cast<double>(a) / b); }
inline float at_most_max(float v) {
  return v > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : v;
}
inline float bounded(float v) { return at_most_max(std::max(v, 0x1p-149f)); }

/// The values of an e4m3 or ue scale code: code = index; the all-ones code is left out and continues the grid.
inline GridTable scale_values(const QuantSpec& spec) {
  const bool e4m3 = spec.scale == ScaleFormat::e4m3;
  const int e = e4m3 ? 4 : spec.scale_exponent_bits, m = e4m3 ? 3 : spec.scale_mantissa_bits;
  const int bias = (1 << (e - 1)) - 1;
  GridTable table;
  for (int code = 0; code < (1 << (e + m)); ++code) {
    const int field = code >> m, fraction = code % (1 << m);
    table.values.push_back(field == 0 ? std::ldexp(fraction, 1 - bias - m)
                                      : std::ldexp((1 << m) + fraction, field - bias - m));
  }
  table.continued = table.values.back();
  table.values.pop_back();
  return table;
}

/// A, S and d of §4.2.
struct OracleTensorScales {
  float amax = 0, encode = 1, decode = 1;
};

/// The scale rules of one spec.
class ScaleOracle {
 public:
  ScaleOracle(const QuantSpec& spec, const ElementFormat& element)
      : spec_(spec), element_(grid_table(element)), emx_(element_.values.back()) {
    if (spec.scale == ScaleFormat::e4m3 || spec.scale == ScaleFormat::ue) scales_ = scale_values(spec);
    if (!scales_.values.empty()) smax_ = scales_.values.back();
  }
  const GridTable& element() const { return element_; }
  bool has_two() const {
    return spec_.rule == ScaleRule::opt || spec_.rule == ScaleRule::four_over_six_mse ||
           spec_.rule == ScaleRule::four_over_six_mae;
  }

  OracleTensorScales tensor(float amax) const {
    OracleTensorScales t{amax, 1, 1};
    if (amax == 0) return t;
    const auto by_s = [&](float numerator) {
      t.encode = bounded(quotient(numerator, amax));
      t.decode = bounded(quotient(1, t.encode));
    };
    switch (spec_.rule) {
      case ScaleRule::te: by_s(fl(smax_ * emx_)); break;
      case ScaleRule::exact: t.decode = bounded(fl(static_cast<double>(Binary128{amax} / (smax_ * emx_)))); break;
      case ScaleRule::torchao:
      case ScaleRule::modelopt: t.decode = bounded(quotient(amax, 2688)); break;
      case ScaleRule::fouroversix: by_s(2688); break;
      case ScaleRule::four_over_six_mse:
      case ScaleRule::four_over_six_mae: by_s(1536); break;
      default: break;
    }
    return t;
  }

  /// The decoded scale of a block with amax a > 0; `second`: the other candidate of opt and 4over6.
  float block(float a, const OracleTensorScales& t, bool second) const {
    if (spec_.scale == ScaleFormat::e8m0) return e8m0(a, second);
    if (spec_.scale == ScaleFormat::fp32) return fp32(a);
    const auto emx = static_cast<float>(emx_);
    switch (spec_.rule) {
      case ScaleRule::te: return nearest(at_most_max(mul(a, mul(t.encode, quotient(1, emx)))));
      case ScaleRule::exact: return nearest(static_cast<double>(Binary128{a} * smax_ / t.amax));
      case ScaleRule::torchao: return nearest(std::clamp(quotient(quotient(a, 6), t.decode), 0x1p-6f, 448.0f));
      case ScaleRule::modelopt: return nearest(std::clamp(quotient(a, mul(6, t.decode)), 0x1p-9f, 448.0f));
      case ScaleRule::fouroversix: return nearest(mul(quotient(a, 6), t.encode));
      case ScaleRule::one: return nearest(quotient(a, emx));
      default: {
        const float six = mul(quotient(a, 6), t.encode);
        return nearest(second ? mul(1.5f, six) : six);
      }
    }
  }

  /// y without the 0.75 of sr34.
  double y(float x, float b, const OracleTensorScales& t) const {
    if (spec_.scale == ScaleFormat::none) return x;
    if (spec_.scale == ScaleFormat::e8m0) return static_cast<double>(x) / b;
    if (spec_.scale == ScaleFormat::fp32) return std::copysign(std::min<double>(std::fabs(quotient(x, b)), emx_), x);
    if (x == 0 || b == 0) return std::copysign(0.0, x);
    double y = 0;
    switch (spec_.rule) {
      case ScaleRule::te: y = mul(x, at_most_max(quotient(1, mul(b, t.decode)))); break;
      case ScaleRule::exact: y = static_cast<double>(Binary128{x} * smax_ * emx_ / (Binary128{b} * t.amax)); break;
      case ScaleRule::torchao: y = mul(x, quotient(quotient(1, t.decode), b)); break;
      case ScaleRule::modelopt: y = quotient(x, mul(b, t.decode)); break;
      case ScaleRule::one: y = quotient(x, b); break;
      default: y = mul(x, quotient(1, mul(b, t.decode))); break;
    }
    return std::isfinite(y) ? y : std::copysign(std::numeric_limits<float>::max(), x);
  }

  /// The error sum of a candidate with one more element of decoded code `value`.
  double add_error(double sum, float x, double value, float b, const OracleTensorScales& t) const {
    if (spec_.rule == ScaleRule::opt) {
      const Binary128 d = (spec_.sr34 ? Binary128{0.75} : Binary128{1}) * x - Binary128{value} * b;
      return sum + static_cast<double>(d * d);
    }
    const float wanted = spec_.sr34 ? mul(0.75f, x) : x;
    const float decoded = quotient(mul(mul(static_cast<float>(value), b), t.amax), 1536);
    const float e = fl(static_cast<double>(decoded) - wanted);
    return fl(sum + (spec_.rule == ScaleRule::four_over_six_mse ? mul(e, e) : std::fabs(e)));
  }

 private:
  float nearest(double v) const {
    // Of the row only "has no sign, saturates" matters to the search; the values are the table's.
    return static_cast<float>(scales_.values[search_code(v, kE4m3, scales_, Rounding::rne, false, 0)]);
  }
  float e8m0(double amax, bool second) const {
    const int e = std::ilogb(amax), top = std::ilogb(emx_);
    int s = e - top;
    if (spec_.rule == ScaleRule::ceil && amax > std::ldexp(1.0, e)) ++s;
    // Rounded to M + 1 significant bits, ties up.
    if (spec_.rule == ScaleRule::even) {
      const double unit = std::ldexp(1.0, e - spec_.element.mantissa_bits);
      s = std::ilogb(std::floor(amax / unit + 0.5) * unit) - top;
    }
    if (spec_.rule == ScaleRule::rceil || spec_.rule == ScaleRule::opt) {
      s = -400;
      while (amax > std::ldexp(emx_, s)) ++s;
      if (second) --s;
    }
    return std::ldexp(1.0f, std::clamp(s, -127, 127));
  }
  float fp32(float amax) const {
    if (spec_.rule == ScaleRule::amax) return std::max(quotient(amax, static_cast<float>(emx_)), 0x1p-149f);
    int r = -149;
    while (r < 127 && static_cast<double>(amax) > std::ldexp(emx_, r)) ++r;
    return std::ldexp(1.0f, r);
  }

  QuantSpec spec_;
  GridTable element_, scales_;
  double emx_, smax_ = 0;
};

/// The e8m0 scale of a block with this amax, `opt` by its first candidate.
inline float oracle_e8m0(double amax, const QuantSpec& spec) {
  return ScaleOracle(spec, spec.element).block(static_cast<float>(amax), {}, false);
}

}  // namespace fp4sim::test
