// Double-double arithmetic and exp, log, tanh, sigmoid of a binary32 argument in it: an oracle whose results lie within
// 2^-60 of the real value, relative (the bound is derived beside each function). Table entries come from MPFR once.
// Nothing here is shared with the elementary functions under test.
#pragma once

#include <mpfr.h>

#include <cmath>
#include <vector>

namespace fp4sim::test {

/// hi + lo, |lo| ≤ ulp(hi)/2 or so.
struct DoubleDouble {
  double hi, lo;
};

/// a + b exactly (Knuth).
inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// a·b exactly.
inline DoubleDouble two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}
/// hi + lo with |hi| ≥ |lo|, exactly (Dekker).
inline DoubleDouble renormalized(double hi, double lo) {
  const double s = hi + lo;
  return {s, lo - (s - hi)};
}
/// Relative error below 2^-100 as long as nothing cancels.
inline DoubleDouble add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = two_sum(a.hi, b.hi);
  return renormalized(s.hi, s.lo + (a.lo + b.lo));
}
inline DoubleDouble multiply(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = two_product(a.hi, b.hi);
  return renormalized(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
/// One Newton step behind the quotient of the high parts: relative error below 2^-98.
inline DoubleDouble divide(DoubleDouble a, DoubleDouble b) {
  const double q = a.hi / b.hi;
  const DoubleDouble p = two_product(q, b.hi);
  const double rest = ((a.hi - p.hi) - p.lo) + a.lo - q * b.lo;
  return renormalized(q, rest / b.hi);
}

using MpfrFunction = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

/// f(numerator/denominator) as hi + lo: relative error below 2^-105.
inline DoubleDouble from_mpfr(MpfrFunction f, double numerator, double denominator) {
  mpfr_t x;
  mpfr_init2(x, 300);
  mpfr_set_d(x, numerator, MPFR_RNDN);
  mpfr_div_d(x, x, denominator, MPFR_RNDN);
  f(x, x, MPFR_RNDN);
  const double hi = mpfr_get_d(x, MPFR_RNDN);
  mpfr_sub_d(x, x, hi, MPFR_RNDN);
  const double lo = mpfr_get_d(x, MPFR_RNDN);
  mpfr_clear(x);
  return {hi, lo};
}

/// The functions with their tables.
class ElementaryOracle {
 public:
  ElementaryOracle() {
    for (int j = 0; j < kSteps; ++j) powers_.push_back(from_mpfr(mpfr_exp2, j, kSteps));
    for (int k = 0; k < 2 * kSteps + kSteps; ++k)
      logs_.push_back(k < kFirstLog ? DoubleDouble{0, 0} : from_mpfr(mpfr_log, k, kLogSteps));
    // ln2/64 and ln2 in pieces whose products with small integers are exact.
    ln2_ = from_mpfr(mpfr_log, 2, 1);
    step_high_ = top_bits(ln2_.hi / kSteps, 32);
    const double rest = ln2_.hi / kSteps - step_high_;  // exact
    step_middle_ = top_bits(rest, 20);
    step_low_ = (rest - step_middle_) + ln2_.lo / kSteps;
    ln2_high_ = top_bits(ln2_.hi, 40);
    ln2_low_ = (ln2_.hi - ln2_high_) + ln2_.lo;
  }

  /// e^x for |x| ≤ 120, within 2^-70 relative. x = n·ln2/64 + r, |r| < 0.0056 = 2^-7.4; r is exact but for the last
  /// piece's rounding (2^-105). e^r − 1 = r + r²/2 + p: r²/2 is a double-double, p = r³/6 + … is below 2^-24.8 and
  /// evaluated in binary64 (4 ulp: 2^-75), its series ends at r^7/5040 (the rest is below 2^-74), and r's low part is
  /// left out of p (2^-53-7.4·3). Products and sums of double-doubles add 2^-99.
  DoubleDouble exp(double x) const {
    const double n = std::nearbyint(x * 92.332482616893657);
    const double first = x - n * step_high_;  // exact: both are multiples of 2^-38 (or n = 0) below 2^14
    DoubleDouble r = two_sum(first, -(n * step_middle_));
    r = two_sum(r.hi, r.lo - n * step_low_);
    const double h = r.hi;
    const double p = h * h * h * (1.0 / 6 + h * (1.0 / 24 + h * (1.0 / 120 + h * (1.0 / 720 + h * (1.0 / 5040)))));
    const DoubleDouble square = two_product(h, h);
    DoubleDouble sum = add(r, {square.hi / 2, square.lo / 2 + h * r.lo});
    sum = add(sum, {p, 0});
    const auto k = static_cast<int>(n);
    const int j = ((k % kSteps) + kSteps) % kSteps;
    const DoubleDouble& power = powers_[static_cast<size_t>(j)];
    const DoubleDouble y = add(power, multiply(power, sum));
    const int exponent = (k - j) / kSteps;
    return {std::ldexp(y.hi, exponent), std::ldexp(y.lo, exponent)};  // exact: no subnormals up to |x| = 120
  }

  /// ln x for positive finite x of at most 24 bits, within 2^-61 relative. x = 2^e·m, c = k/128 next to 1/m,
  /// r = m·c − 1 exact (32 bits), |r| < 2^-7.4; ln x = e·ln2 − ln c + ln(1+r). ln(1+r) = r − r²/2 + p with
  /// p = r³·(1/3 − …) in binary64 (4 ulp, 2^-51·r³/3) and the rest of the series below r^10/10: relative to r both are
  /// below 2^-66. Where e = 0 and c = 1 that is all. Elsewhere |ln x| > 2^-8.1 and the sums' errors stay below 2^-85.
  DoubleDouble log(double x) const {
    int e = 0;
    double m = 2 * std::frexp(x, &e);
    --e;
    if (m > 1.40625) m /= 2, ++e;
    const auto k = static_cast<int>(std::nearbyint(kLogSteps / m));
    const double r = std::fma(m, static_cast<double>(k) / kLogSteps, -1.0);
    const double p =
        r * r * r *
        (1.0 / 3 - r * (1.0 / 4 - r * (1.0 / 5 - r * (1.0 / 6 - r * (1.0 / 7 - r * (1.0 / 8 - r * (1.0 / 9)))))));
    const DoubleDouble square = two_product(r, r);
    const DoubleDouble near_one = add(add({r, 0}, {-square.hi / 2, -square.lo / 2}), {p, 0});
    const DoubleDouble& table = logs_[static_cast<size_t>(k)];
    const double exponent = e;
    const DoubleDouble far = add(two_sum(exponent * ln2_high_, exponent * ln2_low_), {-table.hi, -table.lo});
    return add(far, near_one);
  }

  /// tanh x for |x| ≤ 20. Below 2^-6: x − x³·(1/3 − 2x²/15 + 17x⁴/315 − 62x⁶/2835) with the bracket in binary64
  /// (relative to x: 2^-12/3·2^-50) and a rest below 0.009·x^10 = 2^-66. From there on (E−1)/(E+1), E = e^2|x|: E − 1
  /// loses at most log2(E/(E−1)) < 5.1 bits of exp's 2^-70.
  DoubleDouble tanh(double x) const {
    if (std::fabs(x) < 0x1p-6) {
      const double s = x * x;
      return renormalized(x, -(x * s) * (1.0 / 3 - s * (2.0 / 15 - s * (17.0 / 315 - s * (62.0 / 2835)))));
    }
    const DoubleDouble e = exp(2 * std::fabs(x));
    const DoubleDouble y = divide(add(e, {-1, 0}), add(e, {1, 0}));
    return x < 0 ? DoubleDouble{-y.hi, -y.lo} : y;
  }

  /// 1/(1 + e^−x) for |x| ≤ 120, within 2^-69 relative.
  DoubleDouble sigmoid(double x) const { return divide({1, 0}, add({1, 0}, exp(-x))); }

 private:
  static constexpr int kSteps = 64, kLogSteps = 128;
  static constexpr int kFirstLog = 64;

  /// x without its bits below the first `bits`.
  static double top_bits(double x, int bits) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    return std::ldexp(std::trunc(std::ldexp(fraction, bits)), exponent - bits);
  }

  std::vector<DoubleDouble> powers_, logs_;
  DoubleDouble ln2_{};
  double step_high_ = 0, step_middle_ = 0, step_low_ = 0, ln2_high_ = 0, ln2_low_ = 0;
};

}  // namespace fp4sim::test
