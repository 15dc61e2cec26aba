// rmsnorm and layernorm with their gradients (numerics.md §9): one warp per row; the parameters' gradients are column
// sums over values that are computed again from the row's factors.
#include "gpu/column_sum.cuh"
#include "gpu/fusions.h"
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

/// Mean and r of a row, and its elements of dx to emit(i, dx).
template <class Row, class X, class H, class Emit>
__device__ Centered layernorm_grad_row(const Row& row, const X& x, const H& h, const NormRows& s, const Emit& emit) {
  const Centered xh = center_row(row, x, s);
  const float a = row.sum([&](float acc, auto i) { return acc + h[i]; }) / s.count;
  const float c = row.sum([&](float acc, auto i) { return fma32(h[i], xh(x[i]), acc); }) / s.count;
  row.each([&](auto i) { emit(i, xh.r * ((h[i] - a) - xh(x[i]) * c)); });
  return xh;
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
  const Centered xh = layernorm_grad_row(row, x, h, s, [&](auto i, float v) { dx[row.at(i)] = v; });
  if (lane_index() == 0) centers[2 * index] = xh.mean, centers[2 * index + 1] = xh.r;
}

constexpr int kMostSumsBefore = 2;

/// Gradients around a layernorm: dy, or dy + more[0] (+ more[1]) into `sum` as far as they are there; dx; other + dx
/// into `dx_sum`. nullptr: not there.
struct NormGradSums {
  const float *dy, *more[kMostSumsBefore];
  float *sum[kMostSumsBefore], *dx;
  const float* other;
  float* dx_sum;
};

/// kBefore: sums before the norm that there may be, at least 1.
template <int kPer, int kBefore>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_grad_sums_kernel(NormGradSums sums, const float* __restrict__ xs, const float* __restrict__ g,
                               float* centers, NormRows s) {
  const int64_t index = warp_index(), first = index * s.n;
  if (index >= s.rows) return;
  const HeldRow<kPer> row(s.n);
  const auto x = row.values(xs + first);
  auto h = row.values(sums.dy + first);
  typename HeldRow<kPer>::Values other = {}, more[kBefore] = {};
  if (sums.other != nullptr) other = row.values(sums.other + first);
#pragma unroll
  for (int i = 0; i < kBefore; ++i)
    if (sums.more[i] != nullptr) more[i] = row.values(sums.more[i] + first);
#pragma unroll
  for (int i = 0; i < kBefore; ++i) {
    if (sums.more[i] == nullptr) continue;
    row.each([&](int k) { h[k] = h[k] + more[i][k]; });
    if (sums.sum[i] != nullptr) row.each([&](int k) { sums.sum[i][first + row.at(k)] = h[k]; });
  }
  row.each([&](int k) { h[k] = h[k] * g[row.at(k)]; });
  const Centered xh = layernorm_grad_row(row, x, h, s, [&](int k, float v) {
    if (sums.dx != nullptr) sums.dx[first + row.at(k)] = v;
    if (sums.other != nullptr) sums.dx_sum[first + row.at(k)] = other[k] + v;
  });
  if (lane_index() == 0) centers[2 * index] = xh.mean, centers[2 * index + 1] = xh.r;
}

/// dg and db: products of dy and xh, and dy itself, which is the product of dy and 1. Matrices dy and x, factors mean
/// and r.
struct LayerGains {
  static constexpr int kMatrices = 2, kFactors = 2, kSums = 2;
  __device__ static float add(int sum, float acc, const float (&v)[kMatrices], const float* center) {
    const float xh = Centered{center[0], center[1]}(v[1]);
    return fma32(v[0], sum == 0 ? xh : 1.0f, acc);
  }
};

constexpr int64_t kMostWithSums = 512;  // elements of a row that a warp holds three times

bool is_sum(const NodeCall& call) {
  return call.node.op == Op::add && count_in(call, 0) == count_in(call, 1) && count_in(call, 0) > 0;
}
bool is_held(const NodeCall& call) {
  return call.node.op == Op::layernorm_grad && matrix_view(call.in[0].type.shape).cols <= kMostWithSums;
}
/// Where the layernorm_grad is among the chain's nodes; their number: nowhere.
size_t norm_at(const Chain& chain) {
  size_t at = 0;
  while (at < chain.nodes.size() && chain.nodes[at].node->op != Op::layernorm_grad) ++at;
  return at;
}
bool starts(const NodeCall& first) { return is_sum(first) || is_held(first); }
bool extends(const Chain& chain, const NodeCall& next) {
  const size_t count = chain.nodes.size(), norm = norm_at(chain);
  if (norm < count) return norm == count - 1 && is_sum(next);  // one sum behind it
  if (is_sum(next)) return count < kMostSumsBefore;
  return is_held(next) && next.node.inputs[0] == chain.nodes.back().node->outputs[0];
}
bool complete(const Chain& chain) { return chain.nodes.size() >= 2 && norm_at(chain) < chain.nodes.size(); }

/// The input of a sum that the chain does not give.
const float* other_of(const NodeCall& sum, const BoundNode& before) {
  return in_data<float>(sum, sum.node.inputs[0] == before.node->outputs[0] ? 1 : 0);
}

void launch_sums(std::span<const Chain> chains, Context& context) {
  const Chain& chain = chains[0];
  const size_t at = norm_at(chain);
  const NodeCall call = chain.nodes[at].call();
  NormGradSums sums{};
  sums.dy = in_data<float>(chain.nodes[0].call(), 0);
  const float* dy = sums.dy;  // of the norm
  for (size_t i = 0; i < at; ++i) {
    const NodeCall sum = chain.nodes[i].call();
    sums.more[i] = i == 0 ? in_data<float>(sum, 1) : other_of(sum, chain.nodes[i - 1]);
    if (chain.stored[i])
      sums.sum[i] = out_data<float>(sum);
    else if (i + 1 == at)
      sums.sum[i] = context.scratch<float>(count_out(sum));
    dy = sums.sum[i];
  }
  if (chain.stored[at]) sums.dx = out_data<float>(call);
  if (at + 1 < chain.nodes.size()) {
    const NodeCall sum = chain.nodes[at + 1].call();
    sums.other = other_of(sum, chain.nodes[at]);
    sums.dx_sum = out_data<float>(sum);
  }
  const NormRows s = norm_rows(call, 1);
  const float* x = in_data<float>(call, 1);
  float* centers = context.scratch<float>(2 * s.rows);
  const auto launch = [&]<int kPer>(std::integral_constant<int, kPer>) {
    const auto kernel = at <= 1 ? layernorm_grad_sums_kernel<kPer, 1> : layernorm_grad_sums_kernel<kPer, 2>;
    context.launch(kernel, row_grid(s.rows), sums, x, in_data<float>(call, 2), centers, s);
  };
  if (s.n <= 128)
    launch(std::integral_constant<int, 4>());
  else if (s.n <= 256)
    launch(std::integral_constant<int, 8>());
  else if (s.n <= 384)
    launch(std::integral_constant<int, 12>());
  else
    launch(std::integral_constant<int, 16>());
  sum_columns<LayerGains>(context, dy, x, centers, s.rows, s.n, {{out_data<float>(call, 1), out_data<float>(call, 2)}});
}

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

namespace fp4sim::gpu {

const Fusion kNormGradSums{.name = "norm and sums",
                           .in_place = false,
                           .starts = ops::starts,
                           .extends = ops::extends,
                           .complete = ops::complete,
                           .launch = ops::launch_sums};

}  // namespace fp4sim::gpu
