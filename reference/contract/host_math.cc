#include "reference/contract/host_math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "reference/contract/coefficients.h"
#include "reference/contract/error.h"
#include "reference/contract/philox.h"

namespace fp4sim::host_math {
namespace {

double pow2(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

struct Reduced {
  double r;          // |r| ≤ π/4 plus rounding
  int64_t quadrant;  // 0 … 3
};

Reduced reduce_by_half_pi(double x) {
  if (!(x > -1048576.0 && x < 1048576.0)) throw Error("sin64/cos64: argument must be below 2^20 in magnitude");
  const double n = (x * kTwoOverPi + kRoundMagic) - kRoundMagic;
  const double r = ((x - n * kPio2A) - n * kPio2B) - n * kPio2C;
  return {r, static_cast<int64_t>(n) & 3};
}

// Taylor polynomials on |r| ≤ π/4: 1/21! and 1/20! are below 2^-60 there.
double sin_kernel(double r) {
  const double z = r * r;
  double p = 0;
  for (int n = 19; n >= 3; n -= 2) p = (p + 1.0) * (-z / static_cast<double>(n * (n - 1)));
  return r + r * p;
}

double cos_kernel(double r) {
  const double z = r * r;
  double p = 0;
  for (int n = 20; n >= 2; n -= 2) p = (p + 1.0) * (-z / static_cast<double>(n * (n - 1)));
  return 1.0 + p;
}

double by_quadrant(double r, int64_t quadrant) {
  const double v = (quadrant & 1) != 0 ? cos_kernel(r) : sin_kernel(r);
  return (quadrant & 2) != 0 ? -v : v;
}

}  // namespace

double exp64(double x) {
  if (x != x) return x;
  if (x > kExpOverflow) return std::numeric_limits<double>::infinity();
  if (x < kExpUnderflow) return 0.0;
  const double n = (x * kLog2E + kRoundMagic) - kRoundMagic;
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  double p = kExp[0];
  for (int i = 1; i < kExpTerms; ++i) p = p * r + kExp[i];
  const auto e = static_cast<int64_t>(n);
  const int64_t half = e >> 1;
  return (p * pow2(half)) * pow2(e - half);
}

double log64(double x) {
  if (x != x || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  int64_t e = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    e = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  e += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  if (m >= 2 * kSqrtHalf) {
    m *= 0.5;
    ++e;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = kLog[0];
  for (int i = 1; i < kLogTerms; ++i) p = p * z + kLog[i];
  const double big_r = z * p;
  const auto k = static_cast<double>(e);
  return k * kLn2Hi - ((s * (f - big_r) - k * kLn2Lo) - f);
}

double sin64(double x) {
  const Reduced a = reduce_by_half_pi(x);
  return by_quadrant(a.r, a.quadrant);
}

double cos64(double x) {
  const Reduced a = reduce_by_half_pi(x);
  return by_quadrant(a.r, a.quadrant + 1);
}

double pow64(double base, double exponent) {
  if (exponent == 0) return 1.0;
  return exp64(exponent * log64(base));
}

Words philox(uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  Words c{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), stream, step}};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplier0) * c.w[0];
    const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplier1) * c.w[2];
    c = {{static_cast<uint32_t>(b >> 32) ^ c.w[1] ^ k0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.w[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return c;
}

double normal64(uint64_t seed, uint32_t stream, int64_t i) {
  const Words r = philox(seed, static_cast<uint64_t>(i) / 2, stream, 0);
  const double u = (static_cast<double>(r.w[0]) + 1.0) * 0x1p-32;
  const double angle = 0x1.921fb54442d18p+2 * (static_cast<double>(r.w[1]) * 0x1p-32);
  const double radius = std::sqrt(-2.0 * log64(u));
  return radius * ((i & 1) == 0 ? cos64(angle) : sin64(angle));
}

}  // namespace fp4sim::host_math
