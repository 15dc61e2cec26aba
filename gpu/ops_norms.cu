// rmsnorm and layernorm with their gradients (numerics.md §9): one warp per row; the parameters' gradients are column
// sums over values that are computed again from the row's factors.
#include "gpu/column_sum.cuh"
#include "gpu/ops.h"
#include "gpu/row_sum.cuh"

namespace fp4sim::gpu::ops {
namespace {

struct Rows {
  int64_t rows, n;
  float count, eps;  // n and eps rounded to binary32
};

Rows rows_of(const NodeCall& call, size_t input) {
  const MatrixView m = matrix_view(call.in[input].type.shape);
  return {m.matrices * m.rows, m.cols, static_cast<float>(m.cols), static_cast<float>(call.node.attrs.number("eps"))};
}

__device__ float reciprocal_root(float mean_square, float eps) { return 1.0f / sqrt32(mean_square + eps); }

/// r = 1/sqrt(rowsum(x·x)/n + eps), in every lane.
__device__ float rms_factor(const float* x, const Rows& s) {
  const float sum = sum_of_row(s.n, [x](float acc, int64_t i) { return fma32(x[i], x[i], acc); });
  return reciprocal_root(sum / s.count, s.eps);
}

/// Mean and r of a row: xh = (x − mean)·r.
struct Centered {
  float mean, r;
  __device__ float operator()(float x) const { return (x - mean) * r; }
};
__device__ Centered center_row(const float* x, const Rows& s) {
  const float mean = sum_of_row(s.n, [x](float acc, int64_t i) { return acc + x[i]; }) / s.count;
  const float squares = sum_of_row(s.n, [x, mean](float acc, int64_t i) {
    const float d = x[i] - mean;
    return fma32(d, d, acc);
  });
  return {mean, reciprocal_root(squares / s.count, s.eps)};
}

__global__ void rmsnorm_kernel(const float* __restrict__ xs, const float* __restrict__ g, float* __restrict__ ys,
                               Rows s) {
  const int64_t row = warp_index();
  if (row >= s.rows) return;
  const float* __restrict__ x = xs + row * s.n;
  float* __restrict__ y = ys + row * s.n;
  const float r = rms_factor(x, s);
#pragma unroll 8
  for (int64_t i = lane_index(); i < s.n; i += kWarp) y[i] = (x[i] * r) * g[i];
}

__global__ void rmsnorm_grad_kernel(const float* __restrict__ dys, const float* __restrict__ xs,
                                    const float* __restrict__ g, float* __restrict__ dxs, float* factors, Rows s) {
  const int64_t row = warp_index();
  if (row >= s.rows) return;
  const float* __restrict__ dy = dys + row * s.n, * __restrict__ x = xs + row * s.n;
  float* __restrict__ dx = dxs + row * s.n;
  const float r = rms_factor(x, s);
  const float c = sum_of_row(s.n, [=](float acc, int64_t i) { return fma32(dy[i] * g[i], x[i], acc); }) / s.count;
  const float k = ((r * r) * r) * c;
#pragma unroll 8
  for (int64_t i = lane_index(); i < s.n; i += kWarp) dx[i] = fma32(-x[i], k, (dy[i] * g[i]) * r);
  if (lane_index() == 0) factors[row] = r;
}

/// dg: products of dy and x·r.
struct RmsGain {
  static constexpr int kTerms = 2, kSums = 1;
  struct Term {
    float v[kTerms];
  };
  const float *dy, *x, *factors;
  int64_t n;
  __device__ Term term(int64_t row, int64_t column) const {
    const int64_t i = row * n + column;
    return {{dy[i], x[i] * factors[row]}};
  }
  __device__ float add(int, float acc, const float (&v)[kTerms]) const { return fma32(v[0], v[1], acc); }
};

__global__ void layernorm_kernel(const float* __restrict__ xs, const float* __restrict__ g, const float* __restrict__ b,
                                 float* __restrict__ ys, Rows s) {
  const int64_t row = warp_index();
  if (row >= s.rows) return;
  const float* __restrict__ x = xs + row * s.n;
  float* __restrict__ y = ys + row * s.n;
  const Centered xh = center_row(x, s);
#pragma unroll 8
  for (int64_t i = lane_index(); i < s.n; i += kWarp) y[i] = fma32(xh(x[i]), g[i], b[i]);
}

__global__ void layernorm_grad_kernel(const float* __restrict__ dys, const float* __restrict__ xs,
                                      const float* __restrict__ g, float* __restrict__ dxs, Centered* centers, Rows s) {
  const int64_t row = warp_index();
  if (row >= s.rows) return;
  const float* __restrict__ dy = dys + row * s.n, * __restrict__ x = xs + row * s.n;
  float* __restrict__ dx = dxs + row * s.n;
  const Centered xh = center_row(x, s);
  const float a = sum_of_row(s.n, [=](float acc, int64_t i) { return acc + dy[i] * g[i]; }) / s.count;
  const float c = sum_of_row(s.n, [=](float acc, int64_t i) { return fma32(dy[i] * g[i], xh(x[i]), acc); }) / s.count;
#pragma unroll 8
  for (int64_t i = lane_index(); i < s.n; i += kWarp) dx[i] = xh.r * ((dy[i] * g[i] - a) - xh(x[i]) * c);
  if (lane_index() == 0) centers[row] = xh;
}

/// dg and db: products of dy and xh, and dy itself.
struct LayerGains {
  static constexpr int kTerms = 2, kSums = 2;
  struct Term {
    float v[kTerms];
  };
  const float *dy, *x;
  const Centered* centers;
  int64_t n;
  __device__ Term term(int64_t row, int64_t column) const {
    const int64_t i = row * n + column;
    return {{dy[i], centers[row](x[i])}};
  }
  __device__ float add(int sum, float acc, const float (&v)[kTerms]) const {
    return sum == 0 ? fma32(v[0], v[1], acc) : acc + v[0];
  }
};

}  // namespace

void rmsnorm(const NodeCall& call, Context& context) {
  const Rows s = rows_of(call, 0);
  context.launch(rmsnorm_kernel, context.per_warp(s.rows), in_data<float>(call, 0), in_data<float>(call, 1),
                 out_data<float>(call), s);
}

void rmsnorm_grad(const NodeCall& call, Context& context) {
  const Rows s = rows_of(call, 1);
  const float *dy = in_data<float>(call, 0), *x = in_data<float>(call, 1);
  float* factors = context.scratch<float>(s.rows);
  context.launch(rmsnorm_grad_kernel, context.per_warp(s.rows), dy, x, in_data<float>(call, 2), out_data<float>(call),
                 factors, s);
  sum_columns(context, RmsGain{dy, x, factors, s.n}, s.rows, s.n, {{out_data<float>(call, 1)}});
}

void layernorm(const NodeCall& call, Context& context) {
  const Rows s = rows_of(call, 0);
  context.launch(layernorm_kernel, context.per_warp(s.rows), in_data<float>(call, 0), in_data<float>(call, 1),
                 in_data<float>(call, 2), out_data<float>(call), s);
}

void layernorm_grad(const NodeCall& call, Context& context) {
  const Rows s = rows_of(call, 1);
  const float *dy = in_data<float>(call, 0), *x = in_data<float>(call, 1);
  Centered* centers = context.scratch<Centered>(s.rows);
  context.launch(layernorm_grad_kernel, context.per_warp(s.rows), dy, x, in_data<float>(call, 2), out_data<float>(call),
                 centers, s);
  sum_columns(context, LayerGains{dy, x, centers, s.n}, s.rows, s.n,
              {{out_data<float>(call, 1), out_data<float>(call, 2)}});
}

}  // namespace fp4sim::gpu::ops
