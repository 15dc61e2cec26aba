#include "reference/scalar/estimator.h"

#include <bit>
#include <cmath>

#include "reference/contract/error.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/elementary.h"

namespace fp4sim::scalar {
namespace {

/// Neighbouring grid values with lo ≤ y < hi; the last interval is closed.
struct Interval {
  double lo, hi;
};

/// The interval of a y with |y| ≤ max_normal.
Interval interval_of(double y, const ElementFormat& f) {
  const auto top = static_cast<int64_t>(max_normal_code(f));
  // Rounding the magnitude down finds the neighbour next to zero.
  auto magnitude = static_cast<int64_t>(encode_value(std::fabs(y), f, Rounding::rtz, false));
  int64_t lo = magnitude;
  if (y < 0) lo = grid_value(-magnitude, f) == y ? -magnitude : -magnitude - 1;
  if (lo == top) lo = top - 1;
  return {grid_value(lo, f), grid_value(lo + 1, f)};
}

double dge(double y, const Estimator& e, const ElementFormat& f) {
  if (!(std::fabs(y) <= max_normal_value(f))) return 0;
  const Interval in = interval_of(y, f);
  double u = std::fabs(2.0 * (y - in.lo) / (in.hi - in.lo) - 1.0);
  if (e.eps > 0) u = std::sqrt(u * u + e.eps * e.eps);
  if (u == 0) return e.clip;
  const double power = exp64((1.0 / e.k - 1.0) * log64(u)) / e.k;
  return power < e.clip ? power : e.clip;
}

/// α of dsq: k = log64(2/α − 1)/Δ and s = 1/(1 − α) give a curve that reaches the grid values at the interval's ends.
double dsq(double y, const Estimator& e, const ElementFormat& f) {
  if (!(std::fabs(y) <= max_normal_value(f))) return 0;
  const Interval in = interval_of(y, f);
  const double width = in.hi - in.lo, middle = (in.lo + in.hi) / 2.0;  // exact
  const double k = log64(2.0 / e.alpha - 1.0) / width;
  const double s = 1.0 / (1.0 - e.alpha);
  const double t = tanh64(k * (y - middle));
  return width / 2.0 * s * k * (1.0 - t * t);
}

double soft(double y, const Estimator& e, const ElementFormat& f) {
  const auto top = static_cast<int64_t>(max_normal_code(f));
  double sum = 0;
  for (int64_t i = -top; i < top; ++i) {
    const double lo = grid_value(i, f), hi = grid_value(i + 1, f);
    const double middle = (lo + hi) / 2.0;  // exact
    const double z = e.beta * (y - middle);
    if (!(std::fabs(z) <= 40.0)) continue;
    const double ex = exp64(-std::fabs(z));
    sum = sum + ((hi - lo) * e.beta) * (ex / ((1.0 + ex) * (1.0 + ex)));
  }
  return sum;
}

double sigmoid(double z) {
  const double e = exp64(-std::fabs(z));
  return z >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}

double multiplier64(double y, const Estimator& e, const ElementFormat& f) {
  switch (e.kind) {
    case EstimatorKind::ste: return 1;
    case EstimatorKind::ste_clip: return std::fabs(y) <= max_normal_value(f) ? 1 : 0;
    case EstimatorKind::dge: return dge(y, e, f);
    case EstimatorKind::soft: return soft(y, e, f);
    case EstimatorKind::quest: return std::fabs(y) < max_normal_value(f) ? 1 : 0;
    case EstimatorKind::dsq: return dsq(y, e, f);
    case EstimatorKind::ewgs: break;
  }
  throw Error("not a multiplier: " + to_string(e));
}

}  // namespace

float estimator_multiplier(double y, const Estimator& estimator, const ElementFormat& format) {
  return static_cast<float>(multiplier64(y, estimator, format));
}

float difference_f32(double a, double b) {
  const double sum = a - b;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  // What the rounding of the difference left, exactly.
  const double b_part = a - sum, a_part = sum + b_part;
  const double rest = (a - a_part) - (b - b_part);
  // An odd last bit marks a binary64 number as inexact, so that its rounding to binary32 falls as the real one would.
  auto bits = std::bit_cast<uint64_t>(sum);
  if (rest != 0 && (bits & 1) == 0) bits += (rest > 0) == (sum > 0) ? 1 : uint64_t{0} - 1;
  return static_cast<float>(std::bit_cast<double>(bits));
}

float ewgs_gradient(float dy, double y, float code_value, double delta) {
  const float sign = dy > 0 ? 1.0f : dy < 0 ? -1.0f : 0.0f;
  const float step = static_cast<float>(delta) * (sign * difference_f32(y, code_value));
  return dy * (1.0f + step);
}

double soft_value(double y, double beta, const ElementFormat& f) {
  const double t = std::fabs(y);
  double sum = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(max_normal_code(f)); ++i) {
    const double lo = grid_value(i, f), hi = grid_value(i + 1, f);
    const double middle = (lo + hi) / 2.0;  // exact
    sum = sum + (hi - lo) * (sigmoid(beta * (t - middle)) - sigmoid(-(beta * (t + middle))));
  }
  return std::signbit(y) ? -sum : sum;
}

}  // namespace fp4sim::scalar
