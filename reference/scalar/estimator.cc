#include "reference/scalar/estimator.h"

#include <cmath>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/scale.h"

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
    case EstimatorKind::dsq:
    case EstimatorKind::ewgs: break;
  }
  throw Error("estimator not computed by this version: " + to_string(e));
}

}  // namespace

float estimator_multiplier(double y, const Estimator& estimator, const ElementFormat& format) {
  return static_cast<float>(multiplier64(y, estimator, format));
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

void kernels::estimator_grad(const NodeCall& call) {
  const Estimator estimator = parse_estimator(call.node.attrs.text("estimator"));
  const float* dy = in_data<float>(call.in[0]);
  const float* x = in_data<float>(call.in[1]);
  const Tensor& q = call.in[2];
  float* dx = out_data<float>(call.out[0]);
  const QuantSpec& spec = q.type.spec;
  const ScaleGrid grid = scale_grid(q.type);
  const MatrixView m = matrix_view(q.type.shape);
  const float d = tensor_scale(q);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col) {
        const int64_t i = (matrix * m.rows + row) * m.cols + col;
        const float scale = scale_value(q, is_unscaled(spec) ? 0 : scale_index(grid, matrix, row, col));
        const bool nonfinite_block = std::isnan(scale);
        const double y = nonfinite_block ? 0 : scaled_value(x[i], scale, d, spec);
        dx[i] = dy[i] * (nonfinite_block ? 0.0f : estimator_multiplier(y, estimator, spec.element));
      }
}

}  // namespace fp4sim::scalar
