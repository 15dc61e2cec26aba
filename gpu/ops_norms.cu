// rmsnorm and layernorm with their gradients (numerics.md §9): one warp per row; the parameters' gradients are column
// sums over values that are computed again from the row's factors.
#include "gpu/column_sum.cuh"
#include "gpu/layernorm.cuh"
#include "gpu/ops.h"

namespace fp4sim::gpu::ops {
namespace {

/// r = 1/sqrt(rowsum(x·x)/n + eps), in every lane.
template <class Row, class X>
__device__ float rms_factor(const Row& row, const X& x, const NormRows& s) {
  const float sum = row.sum([&](float acc, auto i) { return fma32(x[i], x[i], acc); });
  return reciprocal_root(sum / s.count, s.eps);
}

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    rmsnorm_kernel(const float* __restrict__ xs, const float* __restrict__ g, float* __restrict__ ys, NormRows s) {
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  const Row row(s.n);
  const auto x = row.values(xs + index * s.n);
  float* y = ys + index * s.n;
  const float r = rms_factor(row, x, s);
  row.each([&](auto i) { y[row.at(i)] = (x[i] * r) * g[row.at(i)]; });
}

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    rmsnorm_grad_kernel(const float* __restrict__ dys, const float* __restrict__ xs, const float* __restrict__ g,
                        float* __restrict__ dxs, float* factors, NormRows s) {
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  const Row row(s.n);
  const auto x = row.values(xs + index * s.n);
  const auto h = row.products(dys + index * s.n, g);
  float* dx = dxs + index * s.n;
  const float r = rms_factor(row, x, s);
  const float c = row.sum([&](float acc, auto i) { return fma32(h[i], x[i], acc); }) / s.count;
  const float k = ((r * r) * r) * c;
  row.each([&](auto i) { dx[row.at(i)] = fma32(-x[i], k, h[i] * r); });
  if (lane_index() == 0) factors[index] = r;
}

/// dg: products of dy and x·r. Matrices dy and x, factor r.
struct RmsGain {
  static constexpr int kMatrices = 2, kFactors = 1, kSums = 1;
  __device__ static float add(int, float acc, const float (&v)[kMatrices], const float* r) {
    return fma32(v[0], v[1] * r[0], acc);
  }
};

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_kernel(const float* __restrict__ xs, const float* __restrict__ g, const float* __restrict__ b,
                     float* __restrict__ ys, NormRows s) {
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  const Row row(s.n);
  const auto x = row.values(xs + index * s.n);
  float* y = ys + index * s.n;
  const Centered xh = center_row(row, x, s);
  row.each([&](auto i) { y[row.at(i)] = fma32(xh(x[i]), g[row.at(i)], b[row.at(i)]); });
}

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_grad_kernel(const float* __restrict__ dys, const float* __restrict__ xs, const float* __restrict__ g,
                          float* __restrict__ dxs, float* centers, NormRows s) {
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  const Row row(s.n);
  const auto x = row.values(xs + index * s.n);
  const auto h = row.products(dys + index * s.n, g);
  float* dx = dxs + index * s.n;
  const Centered xh = center_row(row, x, s);
  const float a = row.sum([&](float acc, auto i) { return acc + h[i]; }) / s.count;
  const float c = row.sum([&](float acc, auto i) { return fma32(h[i], xh(x[i]), acc); }) / s.count;
  row.each([&](auto i) { dx[row.at(i)] = xh.r * ((h[i] - a) - xh(x[i]) * c); });
  if (lane_index() == 0) centers[2 * index] = xh.mean, centers[2 * index + 1] = xh.r;
}

/// dg and db: products of dy and xh, and dy itself. Matrices dy and x, factors mean and r.
struct LayerGains {
  static constexpr int kMatrices = 2, kFactors = 2, kSums = 2;
  __device__ static float add(int sum, float acc, const float (&v)[kMatrices], const float* center) {
    return sum == 0 ? fma32(v[0], Centered{center[0], center[1]}(v[1]), acc) : acc + v[0];
  }
};

}  // namespace

void rmsnorm(const NodeCall& call, Context& context) {
  const NormRows s = norm_rows(call, 0);
  with_row_kind(s.n, [&]<class Row>(std::type_identity<Row>) {
    context.launch(rmsnorm_kernel<Row>, row_grid(s.rows), in_data<float>(call, 0), in_data<float>(call, 1),
                   out_data<float>(call), s);
  });
}

void rmsnorm_grad(const NodeCall& call, Context& context) {
  const NormRows s = norm_rows(call, 1);
  const float *dy = in_data<float>(call, 0), *x = in_data<float>(call, 1);
  float* factors = context.scratch<float>(s.rows);
  with_row_kind(s.n, [&]<class Row>(std::type_identity<Row>) {
    context.launch(rmsnorm_grad_kernel<Row>, row_grid(s.rows), dy, x, in_data<float>(call, 2), out_data<float>(call),
                   factors, s);
  });
  sum_columns<RmsGain>(context, dy, x, factors, s.rows, s.n, {{out_data<float>(call, 1)}});
}

void layernorm(const NodeCall& call, Context& context) {
  const NormRows s = norm_rows(call, 0);
  with_row_kind(s.n, [&]<class Row>(std::type_identity<Row>) {
    context.launch(layernorm_kernel<Row>, row_grid(s.rows), in_data<float>(call, 0), in_data<float>(call, 1),
                   in_data<float>(call, 2), out_data<float>(call), s);
  });
}

void layernorm_grad(const NodeCall& call, Context& context) {
  const NormRows s = norm_rows(call, 1);
  const float *dy = in_data<float>(call, 0), *x = in_data<float>(call, 1);
  float* centers = context.scratch<float>(2 * s.rows);
  with_row_kind(s.n, [&]<class Row>(std::type_identity<Row>) {
    context.launch(layernorm_grad_kernel<Row>, row_grid(s.rows), dy, x, in_data<float>(call, 2), out_data<float>(call),
                   centers, s);
  });
  sum_columns<LayerGains>(context, dy, x, centers, s.rows, s.n, {{out_data<float>(call, 1), out_data<float>(call, 2)}});
}

}  // namespace fp4sim::gpu::ops
