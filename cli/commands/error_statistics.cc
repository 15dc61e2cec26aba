#include "cli/commands/error_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/contract/host_math.h"

namespace fp4sim::cli {
namespace {

constexpr double kDecibel = 0x1.15f2ced384f28p+2;  // 10/ln 10 = 4.342944819…

double ratio(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

}  // namespace

ErrorSums error_sums(std::span<const float> x, std::span<const float> y) {
  ErrorSums s;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i], d = b - a;
    ++s.count;
    s.xx += a * a;
    s.yy += b * b;
    s.xy += a * b;
    s.dd += d * d;
    s.abs_x += std::abs(a);
    s.abs_d += std::abs(d);
    if (a == 0) continue;
    ++s.nonzero;
    s.flushed += b == 0 ? 1 : 0;
    s.relative += std::abs(d) / std::abs(a);
  }
  return s;
}

double relative_error(const ErrorSums& s) { return std::sqrt(s.dd / s.xx); }
double relative_l1(const ErrorSums& s) { return s.abs_d / s.abs_x; }
double mean_relative(const ErrorSums& s) { return s.relative / static_cast<double>(s.nonzero); }
double flushed_share(const ErrorSums& s) { return ratio(s.flushed, s.nonzero); }
double mean_squared_error(const ErrorSums& s) { return s.dd / static_cast<double>(s.count); }
double snr_db(const ErrorSums& s) { return kDecibel * host_math::log64(s.xx / s.dd); }
double cosine(const ErrorSums& s) { return s.xy / (std::sqrt(s.xx) * std::sqrt(s.yy)); }

Moments moments(std::span<const float> x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0, second = 0, fourth = 0;
  for (const double v : x) {
    sum += v;
    squares += v * v;
    m.largest = std::max(m.largest, std::abs(v));
  }
  m.mean = sum / n;
  m.rms = std::sqrt(squares / n);
  for (const double v : x) {
    const double d = (v - m.mean) * (v - m.mean);
    second += d;
    fourth += d * d;
  }
  m.kurtosis = n * fourth / (second * second);
  return m;
}

}  // namespace fp4sim::cli
