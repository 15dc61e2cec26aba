// rmsnorm and layernorm over the last axis with their gradients (numerics.md §9). n = the row length in binary32.
#include <cmath>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {
namespace {

/// Sizes and eps of a call whose tensor `x` is (rows, n).
struct Rows {
  int64_t rows, n;
  float count, eps;  // n and eps rounded to binary32
};

Rows rows_of(const NodeCall& call, const Tensor& x) {
  const MatrixView m = matrix_view(x.type.shape);
  return {m.matrices * m.rows, m.cols, static_cast<float>(m.cols), static_cast<float>(call.node.attrs.number("eps"))};
}

float reciprocal_root(float mean_square, float eps) { return 1.0f / std::sqrt(mean_square + eps); }

/// r = 1/sqrt(rowsum(x·x)/n + eps).
float rms_factor(const float* x, const Rows& s) { return reciprocal_root(rowsum_products(x, x, s.n) / s.count, s.eps); }

/// Writes xh = (x − mean)·r of one row and returns r.
float normalize_row(const float* x, const Rows& s, float* xh) {
  const float mean = rowsum(x, s.n) / s.count;
  for (int64_t i = 0; i < s.n; ++i) xh[i] = x[i] - mean;
  const float r = reciprocal_root(rowsum_products(xh, xh, s.n) / s.count, s.eps);
  for (int64_t i = 0; i < s.n; ++i) xh[i] = xh[i] * r;
  return r;
}

}  // namespace

void rmsnorm(const NodeCall& call) {
  const Rows s = rows_of(call, call.in[0]);
  const float* g = in_data<float>(call.in[1]);
  for (int64_t t = 0; t < s.rows; ++t) {
    const float* x = in_data<float>(call.in[0]) + t * s.n;
    float* y = out_data<float>(call.out[0]) + t * s.n;
    const float r = rms_factor(x, s);
    for (int64_t i = 0; i < s.n; ++i) y[i] = (x[i] * r) * g[i];
  }
}

void rmsnorm_grad(const NodeCall& call) {
  const Rows s = rows_of(call, call.in[1]);
  const float* g = in_data<float>(call.in[2]);
  std::vector<float> h(static_cast<size_t>(s.n)), xr(static_cast<size_t>(s.rows * s.n));
  for (int64_t t = 0; t < s.rows; ++t) {
    const float *dy = in_data<float>(call.in[0]) + t * s.n, *x = in_data<float>(call.in[1]) + t * s.n;
    float *dx = out_data<float>(call.out[0]) + t * s.n, *xr_row = xr.data() + t * s.n;
    const float r = rms_factor(x, s);
    for (int64_t i = 0; i < s.n; ++i) h[static_cast<size_t>(i)] = dy[i] * g[i];
    const float c = rowsum_products(h.data(), x, s.n) / s.count;
    const float k = ((r * r) * r) * c;
    for (int64_t i = 0; i < s.n; ++i) {
      dx[i] = std::fma(-x[i], k, h[static_cast<size_t>(i)] * r);
      xr_row[i] = x[i] * r;
    }
  }
  column_sum_products(in_data<float>(call.in[0]), xr.data(), s.rows, s.n, out_data<float>(call.out[1]));
}

void layernorm(const NodeCall& call) {
  const Rows s = rows_of(call, call.in[0]);
  const float *g = in_data<float>(call.in[1]), *b = in_data<float>(call.in[2]);
  std::vector<float> xh(static_cast<size_t>(s.n));
  for (int64_t t = 0; t < s.rows; ++t) {
    float* y = out_data<float>(call.out[0]) + t * s.n;
    normalize_row(in_data<float>(call.in[0]) + t * s.n, s, xh.data());
    for (int64_t i = 0; i < s.n; ++i) y[i] = std::fma(xh[static_cast<size_t>(i)], g[i], b[i]);
  }
}

void layernorm_grad(const NodeCall& call) {
  const Rows s = rows_of(call, call.in[1]);
  const float *dys = in_data<float>(call.in[0]), *g = in_data<float>(call.in[2]);
  std::vector<float> h(static_cast<size_t>(s.n)), xhs(static_cast<size_t>(s.rows * s.n));
  for (int64_t t = 0; t < s.rows; ++t) {
    float *dx = out_data<float>(call.out[0]) + t * s.n, *xh = xhs.data() + t * s.n;
    const float r = normalize_row(in_data<float>(call.in[1]) + t * s.n, s, xh);
    for (int64_t i = 0; i < s.n; ++i) h[static_cast<size_t>(i)] = dys[t * s.n + i] * g[i];
    const float a = rowsum(h.data(), s.n) / s.count;
    const float c = rowsum_products(h.data(), xh, s.n) / s.count;
    for (int64_t i = 0; i < s.n; ++i) dx[i] = r * ((h[static_cast<size_t>(i)] - a) - xh[i] * c);
  }
  column_sum_products(dys, xhs.data(), s.rows, s.n, out_data<float>(call.out[1]));
  scalar::column_sum(dys, s.rows, s.n, out_data<float>(call.out[2]));
}

}  // namespace fp4sim::scalar::kernels
