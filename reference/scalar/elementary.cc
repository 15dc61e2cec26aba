#include "reference/scalar/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/contract/coefficients.h"

namespace fp4sim::scalar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kFractionMask = (uint64_t{1} << 52) - 1;
constexpr int kExponentBias = 1023;

/// 2^n for −1022 ≤ n ≤ 1023, from bits.
double power_of_two(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + kExponentBias) << 52); }

/// Horner evaluation of the first `terms` coefficients, highest first: each step is one product and one sum.
double horner(const double* coefficients, int terms, double x) {
  double p = coefficients[0];
  for (int i = 1; i < terms; ++i) {
    const double product = p * x;
    p = product + coefficients[i];
  }
  return p;
}

}  // namespace

double exp64(double x) {
  if (std::isnan(x)) return kNan;
  if (x > kExpOverflow) return kInf;
  if (x < kExpUnderflow) return 0.0;
  const double n = (x * kLog2E + kRoundMagic) - kRoundMagic;
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  const double p = horner(kExp, kExpTerms, r);
  const auto exponent = static_cast<int64_t>(n);
  const int64_t first = exponent >> 1;  // two factors, since 2^exponent alone may be no binary64 number
  return (p * power_of_two(first)) * power_of_two(exponent - first);
}

double log64(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return -kInf;
  if (x == kInf) return kInf;

  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - kExponentBias;
  double m = std::bit_cast<double>((bits & kFractionMask) | (uint64_t{kExponentBias} << 52));  // [1, 2)
  if (m >= 2 * kSqrtHalf) {
    m *= 0.5;
    exponent += 1;
  }

  const auto e = static_cast<double>(exponent);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r = z * horner(kLog, kLogTerms, z);
  return e * kLn2Hi - ((s * (f - r) - e * kLn2Lo) - f);
}

double tanh64(double x) {
  const double a = std::fabs(x);
  if (!(a <= kTanhSmall)) return std::copysign(1.0 - 2.0 / (exp64(a + a) + 1.0), x);
  const double r = a + a;
  const double e = r * horner(kExp, kExpTerms - 1, r);  // e^r − 1 without cancellation
  return std::copysign(e / (e + 2.0), x);
}

float exp_f32(float x) { return static_cast<float>(exp64(static_cast<double>(x))); }

float log_f32(float x) { return static_cast<float>(log64(static_cast<double>(x))); }

}  // namespace fp4sim::scalar
