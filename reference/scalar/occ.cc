// OCC (numerics.md §6): clamping between two quantiles, and the residual as exact-position csr.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/csr.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/scale.h"

namespace fp4sim::scalar {
namespace {

struct Bounds {
  float lower, upper;
};

/// Quantiles without interpolation; the values are finite.
Bounds quantiles(std::vector<float> values, double alpha) {
  const auto before = [](float a, float b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); };
  std::sort(values.begin(), values.end(), before);
  const QuantileIndices at = quantile_indices(alpha, static_cast<int64_t>(values.size()));
  return {values[static_cast<size_t>(at.lower)], values[static_cast<size_t>(at.upper)]};
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

float clamp(float y, const Bounds& b) {
  if (y < b.lower) return b.lower;
  if (y > b.upper) return b.upper;
  return y;
}

/// Element indices of the groups that share quantiles: one a vector, or all of them together.
std::vector<std::vector<int64_t>> groups_of(const ValueType& csr) {
  const VectorView view = vector_view(csr.shape, csr.axis);
  std::vector<std::vector<int64_t>> groups(static_cast<size_t>(csr.spec.occ.per_tensor ? 1 : view.vectors));
  for (int64_t v = 0; v < view.vectors; ++v)
    for (int64_t k = 0; k < view.length; ++k)
      groups[static_cast<size_t>(csr.spec.occ.per_tensor ? 0 : v)].push_back(view.begin(v) + k * view.stride);
  return groups;
}

void clamp_groups(const float* y, const ValueType& csr, float* yc) {
  for (const std::vector<int64_t>& group : groups_of(csr)) {
    std::vector<float> values;
    for (const int64_t i : group) values.push_back(y[i]);
    const bool split = !values.empty() && all_finite(values);
    const Bounds bounds = split ? quantiles(values, csr.spec.occ.alpha) : Bounds{0, 0};
    for (const int64_t i : group) yc[i] = split ? clamp(y[i], bounds) : y[i];
  }
}

void write_e4m3(const std::vector<float>& residuals, const Tensor& csr) {
  float amax = 0;
  for (const float r : residuals) amax = std::max(amax, std::fabs(r));
  uint8_t* codes = out_data<uint8_t>(csr, 2);
  uint8_t* scale = out_data<uint8_t>(csr, 3);
  const bool finite = std::isfinite(amax);
  const int s = finite && amax > 0 ? e8m0_exponent(amax, kE4m3, ScaleRule::rceil) : -127;
  *scale = finite ? static_cast<uint8_t>(s + 127) : uint8_t{0xFF};
  for (size_t i = 0; i < residuals.size(); ++i) {
    const double scaled = std::ldexp(static_cast<double>(residuals[i]), -s);  // exact
    codes[i] = finite ? static_cast<uint8_t>(encode_value(scaled, kE4m3, Rounding::rne, false)) : uint8_t{0};
  }
}

void write_residuals(const std::vector<float>& residuals, const Tensor& csr) {
  const ResidualFormat format = csr.type.spec.occ.residual;
  if (format == ResidualFormat::e4m3) return write_e4m3(residuals, csr);
  for (size_t i = 0; i < residuals.size(); ++i) {
    if (format == ResidualFormat::bf16)
      out_data<uint16_t>(csr, 2)[i] = static_cast<uint16_t>(encode_value(residuals[i], kBf16, Rounding::rne, true));
    else
      out_data<float>(csr, 2)[i] = residuals[i];
  }
}

/// Rows of the csr are the vectors along the contraction axis, its columns the positions in them.
void write_csr(const float* y, const float* yc, const Tensor& csr) {
  const VectorView view = vector_view(csr.type.shape, csr.type.axis);
  auto* row_ptr = out_data<int64_t>(csr, 0);
  auto* col = out_data<int32_t>(csr, 1);
  std::vector<float> residuals;
  row_ptr[0] = 0;
  for (int64_t v = 0; v < view.vectors; ++v) {
    for (int64_t k = 0; k < view.length; ++k) {
      const int64_t i = view.begin(v) + k * view.stride;
      const bool clamped = y[i] < yc[i] || y[i] > yc[i];
      if (!clamped || csr.type.spec.occ.residual == ResidualFormat::none) continue;
      col[residuals.size()] = static_cast<int32_t>(k);
      residuals.push_back(y[i] - yc[i]);
    }
    row_ptr[v + 1] = static_cast<int64_t>(residuals.size());
  }
  write_residuals(residuals, csr);
}

}  // namespace

void kernels::occ_split(const NodeCall& call) {
  const float* y = in_data<float>(call.in[0]);
  float* yc = out_data<float>(call.out[0]);
  clamp_groups(y, call.out[1].type, yc);
  write_csr(y, yc, call.out[1]);
}

void kernels::add_residual(const NodeCall& call) {
  const float* x = in_data<float>(call.in[0]);
  const Tensor& csr = call.in[1];
  float* y = out_data<float>(call.out[0]);
  const VectorView view = vector_view(csr.type.shape, csr.type.axis);
  const auto* row_ptr = in_data<int64_t>(csr, 0);
  const auto* col = in_data<int32_t>(csr, 1);
  std::copy(x, x + element_count(csr.type.shape), y);
  for (int64_t v = 0; v < view.vectors; ++v)
    for (int64_t entry = row_ptr[v]; entry < row_ptr[v + 1]; ++entry) {
      const int64_t i = view.begin(v) + col[entry] * view.stride;
      y[i] = x[i] + residual_value(csr, entry);
    }
}

}  // namespace fp4sim::scalar
